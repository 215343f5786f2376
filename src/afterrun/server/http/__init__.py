"""The API over HTTP: FastAPI over a `Host`, behind a guard.

Nouns: the *guard* asks every request for the token and for the host it names; a *problem* is an error as
people and programs read it. Endpoints are grouped by what they are about, a module each; none knows more of
the server than `Host` and `Desk` offer. Needs the extra ``server``.
"""
