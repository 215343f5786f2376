"""The workflow server: what runs workflows, and the API by which others speak to it.

Nouns: the *host* is what the API needs of the engine; the *desk* is where runs are asked for, looked at
and answered; an *ask* is what comes in and an *answer* what goes out. All but the desk needs the extra
``server``.
"""
