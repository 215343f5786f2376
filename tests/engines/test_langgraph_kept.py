import pytest

from .langgraph_cuts import apply, cuts, going
from .langgraph_stores import *


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_x(tmp_path, request, kind):
    s = (
        SqliteStore(tmp_path / "a.sqlite")
        if kind == "sqlite"
        else PostgresStore(request.getfixturevalue("database"), tmp_path)
    )
    s.fill()
    c = cuts(s)
    for t, k in c.items():
        from collections import Counter

        print(t, Counter(v.name for v in k.kept.values()), len(k.going), sum(map(len, k.going.values())))
    before = run_langgraph("read", s)
    apply(s, going(c))
    after = run_langgraph("read", s)
    s2 = s
    for t in before:
        b, a = before[t], after[t]
        kept = {p.id for p in c[t].kept}
        if b["state"] != a["state"]:
            print("STATE", t, b["state"], a["state"])
        hb = [h for h in b["history"] if h["id"] in kept]
        if hb != a["history"]:
            print("HIST", t, hb, a["history"])
    p = run_langgraph("proceed", s)
    s.fill()
    q = run_langgraph("proceed", s)
    for t in q:
        x = p.get(t)
        if x != q[t]:
            print("PROCEED", t, x, q[t])
    assert 0
