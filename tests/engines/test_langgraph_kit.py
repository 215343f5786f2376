import pytest
from .langgraph_stores import *
@pytest.mark.engine
def test_x(tmp_path, database):
    for s in (SqliteStore(tmp_path/"a.sqlite"), PostgresStore(database,tmp_path)):
        s.fill(); print(counts(s), sorted(threads(s)))
        r=run_langgraph("read",s); p=run_langgraph("proceed",s)
        for t,v in r.items():
            print(t,v['state']['next'],len(v['history']))
        print({k:v['ran'] for k,v in p.items()})
