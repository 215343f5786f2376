"""Text with secrets in it, and text without: what the scrubber is measured on. Every secret is made here.

Formats are those of gitleaks' default rules and of the services' own pages, names those of the keyword plugin
of detect-secrets. They are written as alphabet and length, and apart from the patterns of the scrubber.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

LOWER: Final = string.ascii_lowercase + string.digits
ALNUM: Final = string.ascii_letters + string.digits
UPPER: Final = string.ascii_uppercase + string.digits
HEX: Final = "0123456789abcdef"
URL64: Final = ALNUM + "-_"
B64: Final = ALNUM + "+/"

FORMATS: Final[dict[str, tuple[str | tuple[str, int], ...]]] = {
    "github-pat": ("ghp_", (ALNUM, 36)),
    "github-oauth": ("gho_", (ALNUM, 36)),
    "github-app": ("ghs_", (ALNUM, 36)),
    "github-refresh": ("ghr_", (ALNUM, 76)),
    "github-fine-grained": ("github_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab-pat": ("glpat-", (URL64, 20)),
    "gitlab-trigger": ("glptt-", (HEX, 40)),
    "gitlab-deploy": ("gldt-", (URL64, 20)),
    "gitlab-runner": ("glrt-", (URL64, 20)),
    "openai": ("sk-", (ALNUM, 20), "T3BlbkFJ", (ALNUM, 20)),
    "openai-project": ("sk-proj-", (URL64, 74), "T3BlbkFJ", (URL64, 74)),
    "anthropic": ("sk-ant-api03-", (URL64, 93), "AA"),
    "aws-key-id": ("AKIA", (string.ascii_uppercase + "234567", 16)),
    "aws-session-id": ("ASIA", (string.ascii_uppercase + "234567", 16)),
    "aws-bedrock": ("ABSK", (B64, 132)),
    "google-api": ("AIza", (URL64, 35)),
    "google-secret": ("GOCSPX-", (URL64, 28)),
    "google-oauth": ("ya29.", (URL64, 60)),
    "slack-bot": ("xoxb-", (string.digits, 12), "-", (string.digits, 12), "-", (ALNUM, 24)),
    "slack-user": ("xoxp-", (string.digits, 12), "-", (string.digits, 12), "-", (HEX, 32)),
    "slack-app": ("xapp-1-", (UPPER, 11), "-", (string.digits, 13), "-", (HEX, 64)),
    "stripe": ("sk_live_", (ALNUM, 24)),
    "stripe-restricted": ("rk_live_", (ALNUM, 99)),
    "stripe-webhook": ("whsec_", (ALNUM, 32)),
    "square": ("sq0atp-", (URL64, 22)),
    "twilio": ("SK", (HEX, 32)),
    "sendgrid": ("SG.", (URL64, 22), ".", (URL64, 43)),
    "sendinblue": ("xkeysib-", (HEX, 64), "-", (ALNUM, 16)),
    "mailchimp": ((HEX, 32), "-us12"),
    "mailgun": ("key-", (LOWER, 32)),
    "npm": ("npm_", (ALNUM, 36)),
    "pypi": ("pypi-AgEIcHlwaS5vcmc", (URL64, 80)),
    "rubygems": ("rubygems_", (HEX, 48)),
    "docker": ("dckr_pat_", (URL64, 27)),
    "huggingface": ("hf_", (string.ascii_letters, 34)),
    "replicate": ("r8_", (ALNUM, 37)),
    "groq": ("gsk_", (ALNUM, 52)),
    "perplexity": ("pplx-", (ALNUM, 48)),
    "langsmith": ("lsv2_pt_", (HEX, 32), "_", (HEX, 10)),
    "prefect": ("pnu_", (ALNUM, 36)),
    "digitalocean": ("dop_v1_", (HEX, 64)),
    "heroku": ("HRKU-AA", (URL64, 58)),
    "databricks": ("dapi", (HEX, 32)),
    "vault": ("hvs.", (URL64, 95)),
    "terraform": ((ALNUM, 14), ".atlasv1.", (URL64, 64)),
    "pulumi": ("pul-", (HEX, 40)),
    "doppler": ("dp.pt.", (LOWER, 43)),
    "grafana": ("glsa_", (ALNUM, 32), "_", (HEX, 8)),
    "dynatrace": ("dt0c01.", (UPPER, 24), ".", (UPPER, 64)),
    "sentry": ("sntryu_", (HEX, 64)),
    "sourcegraph": ("sgp_", (HEX, 40)),
    "atlassian": ("ATATT3", (URL64, 186)),
    "linear": ("lin_api_", (ALNUM, 40)),
    "notion": ("ntn_", (string.digits, 11), (ALNUM, 35)),
    "figma": ("figd_", (URL64, 40)),
    "airtable": ("pat", (ALNUM, 14), ".", (HEX, 64)),
    "postman": ("PMAK-", (HEX, 24), "-", (HEX, 34)),
    "shopify": ("shpat_", (HEX, 32)),
    "shippo": ("shippo_live_", (HEX, 40)),
    "easypost": ("EZAK", (ALNUM, 54)),
    "planetscale": ("pscale_tkn_", (URL64, 43)),
    "contentful": ("CFPAT-", (URL64, 43)),
    "facebook": ("EAAM", (ALNUM, 110)),
    "azure-ad": ((ALNUM, 3), "8Q~", (URL64, 34)),
    "alibaba": ("LTAI", (ALNUM, 20)),
    "artifactory": ("AKCp", (ALNUM, 69)),
    "cloudflare-ca": ("v1.0-", (HEX, 24), "-", (HEX, 146)),
    "age": ("AGE-SECRET-KEY-1", ("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58)),
    "1password": ("A3-", (UPPER, 6), "-", (UPPER, 11), "-", (UPPER, 5), "-", (UPPER, 5), "-", (UPPER, 5)),
    "jwt": ("eyJ", (URL64, 40), ".eyJ", (URL64, 80), ".", (URL64, 43)),
    "discord": ("M", (ALNUM, 23), ".", (URL64, 6), ".", (URL64, 38)),
    "openshift": ("sha256~", (URL64, 43)),
    "authress": ("sc_", (ALNUM, 20), ".", (ALNUM, 5), ".acc-", (ALNUM, 20), ".", (URL64, 60)),
    "clickhouse": ("4b1d", (ALNUM, 38)),
    "frameio": ("fio-u-", (URL64, 64)),
    "intra42": ("s-s4t2ud-", (HEX, 64)),
    "scalingo": ("tk-us-", (URL64, 48)),
    "settlemint": ("sm_pat_", (ALNUM, 16)),
    "gitlab-session": ("_gitlab_session=", (LOWER, 32)),
    "jwt-in-base64": ("ZXlKaGJHY2lPaU", (B64, 60)),
    "tailscale": ("tskey-auth-", (ALNUM, 12), "-", (ALNUM, 32)),
}
"""Alphabets and lengths of token formats, piece by piece."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A text with a secret in it; ``kind`` says what is looked for."""

    kind: str
    text: str
    secret: str


def token(rng: random.Random, kind: str) -> str:
    """Make a token of a format. It ends with a letter, so that no context takes its last sign for its own."""
    pieces = [piece if isinstance(piece, str) else _random(rng, piece) for piece in FORMATS[kind]]
    made = "".join(pieces)
    return made if made[-1].isalnum() else made[:-1] + "7"


def _random(rng: random.Random, piece: tuple[str, int]) -> str:
    alphabet, length = piece
    return "".join(rng.choices(alphabet, k=length))


CONTEXTS: Final[dict[str, Callable[[str], str]]] = {
    "prose": "I used {} for that call.".format,
    "json": lambda secret: json.dumps({"note": f"use {secret} here", "n": 3}),
    "line": lambda secret: json.dumps({"log": f"first line\n{secret}\nlast"}),
    "nested": lambda secret: json.dumps({"arguments": json.dumps({"text": f"a\n{secret}"})}),
    "query": "GET /v1/items?x=1&q={}&page=2 HTTP/1.1".format,
    "path": "see https://example.com/{}/info".format,
    "list": lambda secret: json.dumps([1, secret, None]),
    "shell": "$ tool login '{}'".format,
}


def tokens(seed: int = 10) -> Iterator[Sample]:
    """Yield every format in every context."""
    rng = random.Random(seed)
    for kind in FORMATS:
        for context in CONTEXTS.values():
            secret = token(rng, kind)
            yield Sample(kind, context(secret), secret)


def _password(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters, k=6)) + str(rng.randrange(10, 99)) + rng.choice("!$-_x")


NAMED: Final[dict[str, Callable[[str], str]]] = {
    "json-password": lambda secret: json.dumps({"user": "me", "password": secret, "n": 1}),
    "json-camel": lambda secret: json.dumps({"clientSecret": secret, "dbPassword": "x"}),
    "json-nested": lambda secret: json.dumps({"arguments": json.dumps({"api_key": secret, "limit": 2})}),
    "json-twice": lambda secret: json.dumps(json.dumps({"a": json.dumps({"passwd": secret})})),
    "json-quote": lambda secret: json.dumps({"secret": f'a"{secret}', "after": "stays"}),
    "json-number": lambda secret: json.dumps({"password": int(secret.encode().hex()[:12], 16)}),
    "json-object": lambda secret: json.dumps({"credentials": {"user": "u", "extra": [secret]}}),
    "json-pair": lambda secret: json.dumps({"headers": [{"name": "X-Api-Key", "value": secret}]}),
    "json-header-list": lambda secret: json.dumps([["authorization", f"Bearer {secret}"]]),
    "json-cut": lambda secret: json.dumps({"access_token": secret, "rest": "x"})[: 18 + len(secret)],
    "python": lambda secret: repr({"password": secret, "n": None}),
    "env": "export DATABASE_PASSWORD={}\nrun".format,
    "dotenv": "AWS_SECRET_ACCESS_KEY={}\nREGION=eu".format,
    "yaml": "db:\n  user: app\n  password: {}\n".format,
    "toml": 'api_key = "{}"\n'.format,
    "ini": "client_secret={}\n".format,
    "php": "'db_password' => '{}',".format,
    "xml": "<Password>{}</Password>".format,
    "xml-attribute": '<add key="Password" value="{}" />'.format,
    "option": "mysqldump --password {} db".format,
    "option-equals": "tool --api-key={} run".format,
    "curl": "curl -u admin:{} https://example.com".format,
    "header": "POST / HTTP/1.1\r\nAuthorization: Basic {}\r\nHost: x".format,
    "bearer": "calls it with bearer {}0abc9 and waits".format,
    "cookie": "Cookie: session={}; theme=dark".format,
    "query": "https://example.com/cb?access_token={}&state=1".format,
    "sas": "https://x.blob.core.windows.net/c?sv=2024-01-01&sig={}QQ77abcdefgh%3D&se=2025".format,
    "url": "https://user:{}@example.com/x".format,
    "postgres": "postgresql://app:{}@db.internal:5432/app".format,
    "redis": "redis://:{}@cache:6379/0".format,
    "mongodb": "mongodb+srv://app:{}/x@cluster0.example.net".format,
    "odbc": "Server=tcp:x;Database=y;User ID=z;Password={};Encrypt=True".format,
    "azure": "AccountName=x;AccountKey={}abc==;EndpointSuffix=core".format,
    "libpq": "host=db user=app password={} dbname=x".format,
    "api key": "my API key: {}0abc1".format,
}


def named(seed: int = 11) -> Iterator[Sample]:
    """Yield passwords that only their place tells, in every way in which people write them."""
    rng = random.Random(seed)
    for kind, context in NAMED.items():
        for _ in range(4):
            secret = _password(rng)
            made = str(int(secret.encode().hex()[:12], 16)) if kind == "json-number" else secret
            yield Sample(f"named {kind}", context(secret), made)


def pem(seed: int = 12) -> Iterator[Sample]:
    """Yield private keys, whole and cut off."""
    rng = random.Random(seed)
    for kind in ("RSA PRIVATE", "EC PRIVATE", "OPENSSH PRIVATE", "PRIVATE", "PGP PRIVATE"):
        body = base64.b64encode(rng.randbytes(96)).decode()
        end = " BLOCK" if kind.startswith("PGP") else ""
        whole = f"-----BEGIN {kind} KEY{end}-----\n{body}\n-----END {kind} KEY{end}-----\n"
        yield Sample("pem", f"the key:\n{whole}after", body)
        yield Sample("pem", json.dumps({"file": whole}), body)
        yield Sample("pem", whole[:120], body[:40])


ORDINARY: Final = (
    "The password was wrong, so the user asked for a new one.",
    "the token expired; log in again. secret sauce. The key point is that auth failed.",
    "password: please enter your password",
    "Password must be at least 12 characters long and the passphrase is optional.",
    '{"usage": {"prompt_tokens": 1204, "completion_tokens": 88, "total_tokens": 1292, "max_tokens": 4096}}',
    '{"token": "Hel", "logprob": -0.12, "top": [{"token": "lo", "bytes": [108, 111]}]}',
    '{"next_page_token": "CAUQAA-abcdef0123456789", "items": []}',
    '{"key": "value", "primary_key": "id", "foreign_key": "user_id", "sort_key": "created"}',
    '{"id": "call_9f8e7d6c5b4a39281706f5e4", "type": "function", "function": {"name": "search"}}',
    '{"id": "chatcmpl-9x8Y7z6W5v4U3t2S1r0QpOnMlKjIh", "object": "chat.completion"}',
    '{"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "role": "assistant", "stop_reason": "tool_use"}',
    '{"id": "toolu_01A09q90qw90lq917835lq9", "name": "get_weather"}',
    '{"run_id": "01933b2a-7b6e-7c3d-9f10-2a3b4c5d6e7f", "parent": "01933b2a-7b6e-7c3d-9f10-2a3b4c5d6e80"}',
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 by somebody",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    'etag: W/"33a64df551425fcc55e4d42a148795d9f25f89d4"',
    "https://example.com/a/b?page=2&sort=asc#part and http://localhost:8080/path/@scope/name",
    "git@github.com:owner/name.git and ssh://git@host/owner/name.git",
    "mail somebody@example.com or sales@example.org about the API",
    "/usr/lib/python3.11/site-packages/sqlalchemy/engine/default.py:1564 in _init_compiled",
    "keyboard shortcuts: ctrl+c; monkey patching; the author's authority; signature of a function",
    "def login(user: str, password: str, token: str | None = None) -> Session:",
    "password = os.environ['DB_PASSWORD']",
    "token = config.token; secret = settings.secret_key",
    "api_key=${API_KEY} password={{ password }} --token <token>",
    '{"properties": {"password": {"type": "string"}, "api_key": {"type": "string"}}}',
    "The secretary took the cookie recipe; the credit was passed on; pass: 12, fail: 3",
    "tests passed=120 failed=2 skipped=1 in 3.4s; compass=north; passenger=7",
    "AKIA is how the ids of keys begin, sk- and ghp_ are prefixes, eyJ starts a JWT",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    '{"finish_reason": "stop", "system_fingerprint": "fp_44709d6fcb", "created": 1700000000}',
    '{"authenticated": true, "author": "me", "session": "morning", "tokenizer": "cl100k_base"}',
    "2025-01-02T03:04:05.678Z INFO worker-7f9c6d5b8-x2x4z started in 1.2s, pid=4242",
    "SELECT key, secret_name FROM vault WHERE token_type = 'service' ORDER BY key",
    '{"result": {"storage_key": "/home/app/.prefect/storage/01933b2a7b6e7c3d9f102a3b4c5d6e7f"}}',
    "credentials = GcpCredentials.load('default'); login(password=password, token=token)",
    "kubectl get pods -n default; docker run --rm -p 8080:80 nginx:1.25.3-alpine",
    "-----BEGIN CERTIFICATE----- and -----BEGIN PUBLIC KEY----- are for everybody",
    "ISBN 978-3-16-148410-0, IBAN DE89 3704 0044 0532 0130 00, tel +49 30 1234567",
)
"""Text without a secret that has what secrets are told by: names, ids, digests, addresses."""


def samples() -> list[Sample]:
    """Return all text with secrets."""
    return [*tokens(), *named(), *pem()]
