"""Patches: from a model's reply to changed files, in five steps that read left to right.

    result.parse_result   reply text        -> Patch | Ask | Noop | Unparsable
    diff.parse_diff       diff text         -> file changes            | Refused
    safety.check          file changes      -> nothing                 | Refused   (and `risks`: what a person must see)
    locate.compute        changes + images  -> Prepared (post-images)  | Refused
    apply.apply           Prepared          -> Applied                 | Refused   (the only step that touches the disk)

Every step but the last is pure; apply.py, with writer.py and tree.py below it, is where the disk begins. A refusal is a
value, worded so that it can go into the next prompt as it stands.
"""
