#!/usr/bin/env bash
# Build the wheel, install it with nothing but its base dependencies, and use it as people do.
# Everything happens in a temporary folder. PYTHON chooses the interpreter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

echo "smoke: build the wheel and install it alone"
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$work/dist" "$root"
"$work/venv/bin/pip" install --quiet --constraint "$root/constraints.txt" "$work"/dist/afterrun-*.whl
"$work/venv/bin/pip" check --quiet

# Away from the source, and from the user's own settings and state.
cd "$work"
unset PYTHONPATH AFTERRUN_STORE
export HOME=$work/home AFTERRUN_STATE_DIR=$work/state
mkdir -p "$HOME"

echo "smoke: afterrun --version"
"$work/venv/bin/afterrun" --version
echo "smoke: afterrun profile list"
"$work/venv/bin/afterrun" profile list

echo "smoke: every module imports, and package data arrived"
"$work/venv/bin/python" - <<'PYTHON'
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from importlib.resources import files

import afterrun

for tool in ("pytest", "hypothesis", "psutil"):
    assert importlib.util.find_spec(tool) is None, f"{tool} is no base dependency"

SERVER = ("fastapi", "starlette", "uvicorn", "httpx", "h11")
names = [m.name for m in pkgutil.walk_packages(afterrun.__path__, "afterrun.")]
without = []
for name in names:
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:  # what an extra brings is only missed where it is used
        place = "postgres" if missing.name == "psycopg" else "serv"
        assert missing.name in ("psycopg", *SERVER) and place in name, f"{name} needs {missing.name}"
        without.append(missing.name)
assert "psycopg" in without, "nothing needs psycopg any more: take the extra away"
assert set(SERVER) & set(without), "nothing needs the extra of the server any more: take it away"

for name in getattr(afterrun, "__all__", ()):
    getattr(afterrun, name)

assert (files("afterrun") / "py.typed").is_file(), "py.typed is missing from the wheel"
profiles = [p.name for p in (files("afterrun") / "profiles").iterdir() if p.name.endswith(".toml")]
assert profiles, "profiles/*.toml are missing from the wheel"
print(f"{importlib.metadata.version('afterrun')}: {len(names)} modules, {len(profiles)} profiles")
PYTHON
echo "smoke: a PostgreSQL store without its driver is a sentence, and no traceback"
set +e
said=$("$work/venv/bin/afterrun" plan "postgresql://127.0.0.1:1/x" --keep-for 30d 2>&1)
code=$?
set -e
case "$code $said" in
2*"pip install 'afterrun[postgres]'"*) ;;
*) echo "unexpected: $code $said"; exit 1 ;;
esac
echo "smoke: runs are looked at without the extra of the server, and serving is a sentence"
"$work/venv/bin/python" -c 'from afterrun.runs import RunStore; RunStore.open("runs.sqlite", sealing="off").close()'
"$work/venv/bin/afterrun" run start runs.sqlite greet --json >/dev/null
"$work/venv/bin/afterrun" run list runs.sqlite | grep -q greet
set +e
said=$("$work/venv/bin/afterrun" serve runs.sqlite --app x:y 2>&1)
code=$?
set -e
case "$code $said" in
2*"pip install 'afterrun[server]'"*) ;;
*) echo "unexpected: $code $said"; exit 1 ;;
esac
echo "smoke: passed"
