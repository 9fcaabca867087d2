"""The terminal UI: a log in the terminal's own scrollback, and an input line below it (S5-22, S5-79).

    command.py   `orchestra agent:tui`; imports nothing of the rest before it runs
    begin.py     draws the input line, and loads the program behind it
    early.py     what is typed until then
    session.py   opens the project and the session
    screen.py    the live rows at the bottom (prompt_toolkit), and the printer of finished lines
    plain.py     the same without live rows; tables.py reads tables aloud
    tail.py      what is alive of running steps, as rows; pure
    status.py    the status row; pure
    prose.py     a finished line of Markdown, painted; pure
    answer.py    an answer while it is written, as the lines to print; pure
    face.py      what happens in runs, told to a surface
    prompts.py   questions and approvals, asked at a surface
    talk.py      what a person types: messages, commands, the end
    hosted.py    commands of `orchestra` run inside; threads.py: work beside the screen
    attach.py    a run that any process drives, shown
    words.py     completion of commands and of @files

Rules
1. What is finished is printed once, as ordinary lines, and belongs to the terminal. There is no alternate screen.
2. What is alive is at most 12 rows at the bottom. Their number does not change while a run goes on, so the cursor, the
   terminal's own, stays in its cell of the input.
3. It knows no workflow's insides: how events read is said by each workflow's description.
4. Every text of models, tools and files is made harmless (`safe`) before it is printed.
"""
