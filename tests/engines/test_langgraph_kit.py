import pytest
from datetime import timedelta
from afterrun import Policy, Retention, SweepOptions
from .langgraph_stores import *
from .langgraph_cuts import *
from .langgraph_cuts import apply, cuts, going


@pytest.mark.engine
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
@pytest.mark.parametrize("offline", [True, False])
def test_x(tmp_path, request, kind, offline):
    s = (
        SqliteStore(tmp_path / "a.sqlite")
        if kind == "sqlite"
        else PostgresStore(request.getfixturevalue("database"), tmp_path)
    )
    s.fill()
    c = cuts(s)
    g = going(c)
    before = counts(s)
    with Retention(s.location, state=s.state, schema_unverified=True) as r:
        print(r.store.digest, r.store.schema())
        p = Policy(generations=Policy(keep_for=timedelta(days=30)))
        rep = r.plan(p)
        print(rep.units, rep.others, rep.rows)
        q = r.prune(p, options=SweepOptions(offline=offline))
        print(q.ended, q.message, q.units, q.others, q.rows)
        assert list(r.verify()) == []
        q2 = r.prune(p)
        print(q2.ended, q2.message, q2.units, q2.others, q2.rows)
    after = counts(s)
    assert {k: before[k] - after[k] for k in before} == dict(rep.rows) == dict(q.rows), (before, after)
    left = {
        (t, ns, i) for t, ns, i in s.rows("select thread_id,checkpoint_ns,checkpoint_id from checkpoints")
    }
    assert not left & {(t, p.namespace, p.id) for t, p in g}
    assert len(left) == before["checkpoints"] - len(g)
    with Retention(s.location, state=s.state, schema_unverified=True) as r:
        p = Policy(keep_for=timedelta(days=30))
        rep = r.plan(p)
        print(rep.units, rep.others, rep.rows)
        q = r.prune(p, options=SweepOptions(offline=offline))
        print(q.ended, q.message, q.units, q.others, q.rows)
        print(sorted(threads(s)))
        assert list(r.verify()) == []
