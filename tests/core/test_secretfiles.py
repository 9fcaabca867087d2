"""Files that are secrets by their name: which are, which are not, and that every spelling of one counts."""

from __future__ import annotations

import pytest

from orchestra.core.secretfiles import secret_by_name

# The 34 well-known names of an attack on what models were shown (F7), and their like.
_SECRETS = """
    .env .env.local .env.production prod.env docker.env .envrc .flaskenv .dev.vars api/prod.env.local
    id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk id_rsa_deploy deploy_rsa ssh_host_rsa_key .ssh/config
    .ssh/known_hosts home/.ssh/work
    server.pem deploy.key config/master.key config/credentials/production.key AuthKey_ABC.p8 example.com.key
    store.p12 cert.pfx release.jks debug.keystore team.kdbx wallet.dat .gnupg/secring.gpg office.ovpn
    .netrc _netrc .npmrc .pypirc .git-credentials .gitcookies .dockercfg .docker/config.json .s3cfg .boto .vault-token
    .terraformrc .config/gh/hosts.yml auth.json .m2/settings.xml rclone.conf .cargo/credentials
    kubeconfig kubeconfig.yaml prod.kubeconfig .kube/config .aws/credentials .aws/config .config/gcloud/credentials.db
    .config/gcloud/legacy_credentials/a@b/adc.json service-account.json service-account-prod.json client_secret_1.json
    application_default_credentials.json token.json
    .pgpass .my.cnf .mylogin.cnf .htpasswd htpasswd web.htpasswd .msmtprc wg0.conf sftp-config.json
    terraform.tfstate terraform.tfstate.backup env/prod.tfstate terraform.tfvars prod.auto.tfvars prod.tfvars.json
    secrets.yaml secrets.yml secrets.json secrets.toml .secrets.toml secrets.prod.yaml db-secret.yaml app.secrets.json
    credentials credentials.json credentials.yml credentials.csv aws_credentials.ini password.txt passwords.csv token
    api_key.txt .vault_pass vault.yml secrets/db_password secrets/tls/server.txt .secrets
    wp-config.php LocalSettings.php local_settings.py sites/default/settings.php app/etc/env.php local.properties
    keystore.properties key.properties
    .bash_history .psql_history cookies.txt session.har
"""
_ORDINARY = """
    .env.example .env.sample .env.template .env.dist example.env sample.env docs/env.md environment.py env.py
    environment.yml .venv/bin/python my.env.ts vite-env.d.ts
    id_rsa.pub id_ed25519.pub deploy_rsa.pub test_id_rsa.py authorized_keys
    public.key jwt-public.pem server.pub.pem cert.pem fullchain.pem ca.pem keyboard.py keys.py monkey.py keynote.md
    hotkeys.json i18n/key.json
    tokens.css tokens.json tokenizer.json token.py tokens.py design-tokens.yaml
    secrets.py core/secrets.py secrets_test.go src/secrets/manager.py Secret.java secrets.tf sealed-secret.yaml
    external-secrets.yaml secrets.example.yaml secrets.yaml.example .secrets.baseline secretary.txt
    credentials_test.go credentials.py credentials.example.json test_credentials.py docs/credentials.md
    terraform.tfvars.example main.tf variables.tf wp-config-sample.php wp-content/index.php settings.py
    package.json config.json .docker/Dockerfile .kubernetes/deploy.yaml .aws/task-definition.json gcloud/deploy.sh
    author.json authors.txt pass.py password.py password_reset.html bypass.txt passwords_test.rb
    README.md Makefile .gitignore .editorconfig .github/workflows/ci.yml pyproject.toml gradle.properties
    history.txt cookies.py har.py 비밀.txt 토큰.md
"""


@pytest.mark.parametrize("path", _SECRETS.split())
def test_a_well_known_secret_counts_in_every_spelling_folder_and_copy(path: str) -> None:
    for spelled in (path, path.upper(), f"deep/er/{path}", f"{path}.bak", f"{path}.orig", f"{path}~", f"{path}.old~"):
        assert secret_by_name(spelled), spelled


@pytest.mark.parametrize("path", _ORDINARY.split())
def test_what_a_model_needs_to_see_is_no_secret(path: str) -> None:
    assert secret_by_name(path) == ""
    assert secret_by_name(f"packages/{path}") == ""


def test_the_reason_names_the_class() -> None:
    assert secret_by_name("배포/prod.env") == "a file of environment variables"
    assert secret_by_name("id_ecdsa") == "an SSH key"


COPIES = """prod.env.1 prod.env.20240101 #prod.env# prod.env.swo prod.env.txt prod.env. .ＥＮＶ master.key.2
master.key.txt credentials.json.1 wp-config.php.txt"""


@pytest.mark.parametrize("name", [*COPIES.split(), "prod.env copy", "prod.env (copy)", "prod.env "])
def test_a_copy_of_a_secret_is_a_secret(name: str) -> None:
    assert secret_by_name(f"etc/{name}"), name
