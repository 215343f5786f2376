"""The workflow server: what runs workflows, and the API by which others speak to it.

Nouns: an *app* names workflows, a *context* is what a workflow calls, a *runner* is a child process that
executes workflows, a *frame* is what it and the engine say to each other. The *engine* holds the store. The
*host* is what the API needs of it, the *desk* is where runs are asked for, looked at and answered; an *ask*
is what comes in and an *answer* what goes out.
"""
