"""Token formats that can be told by how they look. Sources are what services and public detectors document.

Each begins with letters of its own, and is matched where a word begins: after anything but a letter or a
digit. Lengths are the documented ones or a little less, since services lengthen their tokens.
"""

from __future__ import annotations

import re
from typing import Final

WORD: Final = r"[A-Za-z0-9_-]"

PREFIXED: Final = {
    "github": r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{50,}",
    "gitlab": r"gl(?:pat|ptt|dt|rt|ft|imt|soat|cbt|ffct|oas|agent)-[A-Za-z0-9_.-]{20,}",
    "gitlab-runner": r"GR1348941[A-Za-z0-9_-]{20,}",
    "openai": r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}|sk-[A-Za-z0-9]{32,}",
    "anthropic": r"sk-ant-[a-z0-9]{3,12}-[A-Za-z0-9_-]{40,}",
    "openrouter": r"sk-or-v1-[a-f0-9]{40,}",
    "aws-key-id": r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "aws-bedrock": r"ABSK[A-Za-z0-9+/]{100,}={0,2}|bedrock-api-key-[A-Za-z0-9+/=]{20,}",
    "google": r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,}",
    "google-oauth": r"ya29\.[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{30,}",
    "slack": r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{20,}",
    "stripe": r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{24,}",
    "square": r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{54,}",
    "twilio": r"(?:SK|AC)[0-9a-fA-F]{32}(?![A-Za-z0-9])",
    "sendgrid": r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}",
    "sendinblue": r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}",
    "mailgun": r"key-[0-9a-z]{32}(?![A-Za-z0-9])",
    "mailchimp": r"[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])",
    "npm": r"npm_[A-Za-z0-9]{36}",
    "pypi": r"pypi-[A-Za-z0-9_-]{50,}",
    "rubygems": r"rubygems_[a-f0-9]{48}",
    "clojars": r"CLOJARS_[a-z0-9]{60}",
    "docker": r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}",
    "huggingface": r"hf_[A-Za-z0-9]{30,}|api_org_[A-Za-z0-9]{30,}",
    "replicate": r"r8_[A-Za-z0-9]{30,}",
    "groq": r"gsk_[A-Za-z0-9]{40,}",
    "xai": r"xai-[A-Za-z0-9]{40,}",
    "perplexity": r"pplx-[A-Za-z0-9]{40,}",
    "langsmith": r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",
    "prefect": r"pn[ub]_[A-Za-z0-9]{36}",
    "digitalocean": r"do[opr]_v1_[a-f0-9]{64}",
    "heroku": r"HRKU-[A-Za-z0-9_-]{36,}",
    "fly": r"fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{60,}={0,3}",
    "netlify": r"nfp_[A-Za-z0-9]{36,}",
    "supabase": r"sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,}",
    "databricks": r"dapi[a-f0-9]{32}(?:-[0-9])?",
    "vault": r"hv[sbr]\.[A-Za-z0-9_-]{24,}|s\.[A-Za-z0-9]{24}(?![A-Za-z0-9.])",
    "terraform": r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
    "pulumi": r"pul-[a-f0-9]{40}",
    "doppler": r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}",
    "tailscale": r"tskey-[a-z]{3,10}-[A-Za-z0-9-]{16,}",
    "grafana": r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,}={0,3}",
    "grafana-key": r"eyJrIjoi[A-Za-z0-9]{60,}={0,3}",
    "dynatrace": r"dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}",
    "newrelic": r"NR(?:AK|JS|RA|II)-[A-Za-z0-9]{16,}",
    "sentry": r"sntry[su]_[A-Za-z0-9+/=_]{40,}",
    "sourcegraph": r"sgp_(?:[A-Fa-f0-9]{16}_|local_)?[A-Fa-f0-9]{40}",
    "atlassian": r"AT(?:ATT|CTT|BB)3?[A-Za-z0-9_=-]{60,}",
    "linear": r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}",
    "notion": r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?![A-Za-z0-9])",
    "figma": r"fig[douh]_[A-Za-z0-9_-]{40,}",
    "airtable": r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    "postman": r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",
    "shopify": r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
    "shippo": r"shippo_(?:live|test)_[A-Fa-f0-9]{40}",
    "easypost": r"EZ[AT]K[A-Za-z0-9]{54}",
    "planetscale": r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_=.-]{32,}",
    "readme": r"rdme_[a-z0-9]{70}",
    "typeform": r"tfp_[A-Za-z0-9_.=-]{40,}",
    "contentful": r"CFPAT-[A-Za-z0-9_-]{43}",
    "facebook": r"EAA[A-Za-z0-9]{90,}",
    "dropbox": r"sl\.[A-Za-z0-9_=-]{100,}",
    "mapbox": r"sk\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}",
    "azure-ad": r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
    "alibaba": r"LTAI[A-Za-z0-9]{12,20}(?![A-Za-z0-9])",
    "artifactory": r"AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{59}",
    "cloudflare": r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}",
    "harness": r"[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
    "octopus": r"API-[A-Z0-9]{26}(?![A-Za-z0-9])",
    "openshift": r"sha256~[A-Za-z0-9_-]{43}",
    "infracost": r"ico-[A-Za-z0-9]{32}",
    "maxmind": r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk",
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    "1password": r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
    "1password-service": r"ops_eyJ[A-Za-z0-9+/=]{100,}",
    "adobe": r"p8e-[A-Za-z0-9]{32}",
    "duffel": r"duffel_(?:test|live)_[A-Za-z0-9_=-]{43}",
    "flutterwave": r"FLW(?:SECK|PUBK)(?:_TEST)?-[a-z0-9]{12,32}(?:-X)?",
    "authress": r"(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}"
    r"\.[A-Za-z0-9+/_=-]{30,}",
    "clickhouse": r"4b1d[A-Za-z0-9]{38}(?![A-Za-z0-9])",
    "frameio": r"fio-u-[A-Za-z0-9_=-]{64}",
    "intra42": r"s-s4t2(?:ud|af)-[a-f0-9]{64}",
    "scalingo": r"tk-us-[A-Za-z0-9_-]{48}",
    "settlemint": r"sm_[aps]at_[A-Za-z0-9]{16}",
    "gitlab-session": r"_gitlab_session=[0-9a-z]{32}",
    "jwt-in-base64": r"ZXlK[A-Za-z0-9+/_-]{60,}={0,2}",
    "jwt": r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?",
    "discord": r"[MNO][A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
    "telegram": r"(?<=[0-9]{8}:)AA[A-Za-z0-9_-]{33}",
}
"""What a token of each service looks like; the names are for tests and reports."""

SHORTEST: Final = 16
"""Characters of the shortest token of these."""

TOKEN: Final = re.compile(
    rb"(?<![A-Za-z0-9])(?:" + "|".join(PREFIXED.values()).encode() + rb")", flags=re.ASCII
)

HOOK: Final = re.compile(
    rb"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,})"
    rb"|discord(?:app)?\.com/api/webhooks/[0-9]+/([A-Za-z0-9_-]{30,})"
    rb"|webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{60,})"
)
"""Addresses that anybody who knows them may post to."""
