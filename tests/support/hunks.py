"""A file of forty lines, and a patch with three hunks in it and one in calc.py: for decisions hunk by hunk."""

LINES = [f"줄 {number}" for number in range(1, 41)]
HUNKS = """\
diff --git a/글.txt b/글.txt
--- a/글.txt
+++ b/글.txt
@@ -1,3 +1,3 @@
 줄 1
-줄 2
+둘
 줄 3
@@ -19,3 +19,3 @@
 줄 19
-줄 20
+스물
 줄 21
@@ -38,3 +38,3 @@
 줄 38
-줄 39
+서른아홉
 줄 40
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
