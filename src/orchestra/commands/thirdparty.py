"""Well-known programs and packages that no project makes itself: data for commands/failures.py.

A missing name that is in no list and that the project does not require may be one that a patch has yet to make. Then a
failure is the code's, not the environment's.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


RUNNERS = _names(
    """
    bandit black build coverage flake8 hypothesis isort jupyter mypy nose2 nox pip pre-commit pre_commit py.test
    pylint pyright pytest ruff sphinx sphinx-build tox twine
    """
)
PROGRAMS = RUNNERS | _names(
    """
    ant bash bats bazel bun bundle c++ cargo cc clang cmake composer conda ctest curl deno docker docker-compose
    dotnet eslint g++ gcc git go gofmt gradle helm java javac jest jq kubectl lua make meson mix mocha mvn mysql ninja
    node npm npx nvm perl php phpunit pnpm poetry prettier psql python python2 python3 rails rake redis-cli rspec ruby
    rustc sbt shellcheck sqlite3 swift tap terraform ts-node tsc tsx uv valgrind vite vitest wget xmllint yarn zsh
    """
)
PYTHON = RUNNERS | _names(
    """
    Crypto OpenSSL PIL absl aiofiles aiohttp alembic anyio arrow asgiref asyncpg attr attrs babel bcrypt boto3
    botocore bs4 cachetools celery certifi cffi chardet charset_normalizer click cloudpickle colorama cryptography cv2
    cython dask dateutil decouple django docker docutils dotenv elasticsearch email_validator environ execnet factory
    faker fastapi flask freezegun fsspec gevent git google greenlet grpc gunicorn h11 h5py hatchling httpcore httpx
    huggingface_hub idna iniconfig itsdangerous jinja2 joblib jose jsonschema jwt keras kombu langchain lxml markdown
    markupsafe marshmallow matplotlib mock mongoengine more_itertools moto motor msgpack msgspec mysql nacl networkx
    nltk notebook numba numpy oauthlib openai openpyxl orjson packaging pandas paramiko passlib pexpect pkg_resources
    platformdirs plotly pluggy polars prometheus_client prompt_toolkit psutil psycopg psycopg2 pyarrow pydantic
    pydantic_settings pygments pymongo pymysql pytest_asyncio pytest_cov pytest_django pytest_mock pytest_timeout pytz
    redis regex requests requests_mock responses respx rest_framework rich ruamel scipy seaborn selenium sentry_sdk
    serial setuptools shapely simplejson six skimage sklearn sniffio sortedcontainers spacy sqlalchemy sqlmodel
    starlette statsmodels structlog sympy tabulate tenacity tensorflow tiktoken time_machine toml tomli tomli_w torch
    torchvision tornado tqdm transformers trio twisted typer typing_extensions tzdata ujson unidecode urllib3 uvicorn
    uvloop vcr watchdog websocket websockets werkzeug wheel wrapt xdist xmltodict yaml yarl zmq zope
    """
)
NODE = _names(
    """
    @babel/core @jest/globals @playwright/test @testing-library/react @types/node angular ava axios body-parser c8
    chai chalk commander cors cross-env cypress debug dotenv electron enzyme esbuild eslint express fastify glob got
    jasmine jest jsdom karma koa lodash mocha mongoose next nock node-fetch nodemon nyc pg playwright prettier
    proxyquire puppeteer qunit react react-dom redis rimraf rollup semver should sinon socket.io superagent supertest
    tap tape ts-jest ts-node tsx typescript uuid vite vitest vue webpack ws yargs zod
    """
)
# modules whose package has another name
PACKAGES = {
    "Crypto": "pycryptodome",
    "OpenSSL": "pyopenssl",
    "PIL": "pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "factory": "factory-boy",
    "git": "gitpython",
    "google": "google-api-core",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "mysql": "mysql-connector-python",
    "pkg_resources": "setuptools",
    "psycopg2": "psycopg2-binary",
    "py.test": "pytest",
    "rest_framework": "djangorestframework",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "websocket": "websocket-client",
    "xdist": "pytest-xdist",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
# options of pytest that come with a plugin
PLUGINS = {
    "--asyncio-mode": "pytest-asyncio",
    "--benchmark": "pytest-benchmark",
    "--cov": "pytest-cov",
    "--create-db": "pytest-django",
    "--dist": "pytest-xdist",
    "--ds": "pytest-django",
    "--forked": "pytest-forked",
    "--html": "pytest-html",
    "--numprocesses": "pytest-xdist",
    "--randomly": "pytest-randomly",
    "--reruns": "pytest-rerunfailures",
    "--reuse-db": "pytest-django",
    "--snapshot-update": "syrupy",
    "--timeout": "pytest-timeout",
    "-n": "pytest-xdist",
}
