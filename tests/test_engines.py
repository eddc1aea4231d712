"""What every engine promises, and what is particular to one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import ClientError
from pynamodb.attributes import UnicodeAttribute
from pynamodb.connection import Connection
from pynamodb.indexes import AllProjection, GlobalSecondaryIndex
from pynamodb.models import Model

from pynacount.testing import DynamoDBLocalEngine, EngineUnavailable, MotoEngine, dynamodb_local, dynamodb_package, java
from pynacount.testing import engine as engine_named
from pynacount.testing.tokens import TOKEN_LIFETIME, TokenMemory, TokenReused
from tests.shop import Stock, add, client, key, left, put_new


@pytest.fixture
def shop(tables):
    tables(Stock)
    return client()


@pytest.fixture
def once() -> str:
    """A token; a new one for each test, for DynamoDB Local remembers tokens beyond the tables they wrote to."""
    return str(uuid4())


def error_code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


class TestReaching:
    def test_boto3_and_pynamodb_reach_the_same_tables_without_settings(self, engine, tables):
        tables(Stock)
        boto3.client("dynamodb").put_item(TableName="Shop", Item={**key("tea"), "left": {"N": "3"}})
        boto3.resource("dynamodb").Table("Shop").put_item(Item={"PK": "SHOP", "SK": "salt", "left": 4})
        assert Stock.get("SHOP", "tea").left == 3
        assert Stock.get("SHOP", "salt").left == 4
        names = Connection().list_tables()["TableNames"]
        assert list(names) == ["Shop"]

    def test_a_client_that_is_given_the_endpoint_reaches_it_too(self, engine, shop):
        by_hand = boto3.client("dynamodb", endpoint_url=engine.endpoint_url)
        assert by_hand.list_tables()["TableNames"] == ["Shop"]

    def test_threads_are_served_whole_requests_one_after_another_if_need_be(self, engine, tables):
        tables(Stock)
        Stock("SHOP", "tea", left=0).save()
        clients = [client(attempts=10) for _ in range(8)]

        def add_twenty(client):
            for _ in range(20):
                client.transact_write_items(TransactItems=[add("tea")])

        threads = [threading.Thread(target=add_twenty, args=(one,)) for one in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert left(clients[0], "tea") == 160

    def test_reset_drops_every_table(self, engine, shop):
        engine.reset()
        assert shop.list_tables()["TableNames"] == []

    @pytest.mark.real_engine
    def test_a_model_that_led_elsewhere_is_led_to_the_engine_that_is_entered(self, engine, tables):
        tables(Stock)
        Stock("SHOP", "tea", left=1).save()
        with MotoEngine():
            assert not Stock.exists()
        assert Stock.get("SHOP", "tea").left == 1

    def test_leaving_restores_the_environment(self, engine, monkeypatch):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://mine.invalid")
        monkeypatch.setenv("AWS_PROFILE", "mine")
        before = dict(os.environ)
        with engine_named(engine.name) as other:
            assert os.environ.get("AWS_ENDPOINT_URL_DYNAMODB") == other.endpoint_url
            assert "AWS_PROFILE" not in os.environ
            assert client().list_tables()["TableNames"] == []
        assert dict(os.environ) == before

    def test_it_is_reached_past_a_proxy_that_the_environment_names(self, engine, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "mine.invalid")
        with engine_named(engine.name):
            assert client().list_tables()["TableNames"] == []
            assert os.environ["NO_PROXY"].split(",")[0] == "mine.invalid"

    def test_a_running_engine_refuses_to_be_entered_again(self, engine):
        with pytest.raises(RuntimeError, match="running already"), engine:
            pass

    def test_an_engine_that_is_not_running_refuses_to_be_reset(self, engine):
        with pytest.raises(RuntimeError, match="not running"):
            type(engine)().reset()

    def test_an_unknown_engine_is_refused_with_the_names_there_are(self):
        with pytest.raises(ValueError, match="moto, dynamodb-local"):
            engine_named("sqlite")

    def test_only_dynamodb_local_is_for_threads(self):
        assert (MotoEngine.threads, DynamoDBLocalEngine.threads) == (False, True)

    @pytest.mark.real_engine
    def test_threads_lose_no_update(self, engine, shop):
        def work() -> None:
            for _ in range(25):
                shop.transact_write_items(TransactItems=[add("tea")])

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert left(shop, "tea") == 100


class TestTokens:
    def test_a_replayed_token_is_answered_without_running_again(self, shop, once):
        for _ in range(3):
            shop.transact_write_items(TransactItems=[add("tea"), put_new("receipt")], ClientRequestToken=once)
        assert left(shop, "tea") == 1

    def test_a_replay_may_ask_for_the_capacity_it_consumed(self, shop, once):
        shop.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once)
        shop.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once, ReturnConsumedCapacity="TOTAL")
        assert left(shop, "tea") == 1

    def test_a_token_with_another_request_is_refused(self, shop, once):
        shop.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once)
        with pytest.raises(ClientError) as refused:
            shop.transact_write_items(TransactItems=[add("tea", by=2)], ClientRequestToken=once)
        assert error_code(refused) == "IdempotentParameterMismatchException"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert left(shop, "tea") == 1

    def test_the_order_of_the_writes_is_part_of_the_request(self, shop, once):
        shop.transact_write_items(TransactItems=[add("tea"), add("salt")], ClientRequestToken=once)
        with pytest.raises(ClientError) as refused:
            shop.transact_write_items(TransactItems=[add("salt"), add("tea")], ClientRequestToken=once)
        assert error_code(refused) == "IdempotentParameterMismatchException"

    def test_the_token_of_a_cancelled_transaction_runs_when_it_comes_again(self, shop, once):
        shop.put_item(TableName="Shop", Item=key("receipt"))
        transaction = {"TransactItems": [add("tea"), put_new("receipt")], "ClientRequestToken": once}
        with pytest.raises(shop.exceptions.TransactionCanceledException):
            shop.transact_write_items(**transaction)
        shop.delete_item(TableName="Shop", Key=key("receipt"))
        shop.transact_write_items(**transaction)
        assert left(shop, "tea") == 1

    def test_the_token_of_a_cancelled_transaction_may_be_used_for_another_request(self, shop, once):
        shop.put_item(TableName="Shop", Item=key("receipt"))
        with pytest.raises(shop.exceptions.TransactionCanceledException):
            shop.transact_write_items(TransactItems=[put_new("receipt")], ClientRequestToken=once)
        shop.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once)
        assert left(shop, "tea") == 1

    def test_two_tokens_are_two_transactions(self, shop):
        for token in ("one", "two"):
            shop.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=token)
        assert left(shop, "tea") == 2

    def test_calls_without_a_token_are_each_run(self, shop):
        for _ in range(2):
            shop.transact_write_items(TransactItems=[add("tea")])
        assert left(shop, "tea") == 2

    def test_pynamodb_and_boto3_share_the_memory_of_tokens(self, shop, once):
        request = {"TransactItems": [add("tea")], "ClientRequestToken": once}
        Connection().client.transact_write_items(**request)
        boto3.client("dynamodb").transact_write_items(**request)
        assert left(shop, "tea") == 1


class TestTokenMemory:
    def test_a_token_is_forgotten_after_ten_minutes(self):
        now = 0.0
        memory = TokenMemory(clock=lambda: now)
        memory.remember("once", "request")
        now = TOKEN_LIFETIME
        assert memory.committed("once", "request")
        now += 1
        assert not memory.committed("once", "request")
        assert not memory.committed("once", "another")

    def test_another_request_under_a_remembered_token_is_told_apart(self):
        memory = TokenMemory()
        memory.remember("once", "request")
        with pytest.raises(TokenReused):
            memory.committed("once", "another")


class TestMoto:
    def test_a_token_runs_again_after_ten_minutes(self, once):
        now = 0.0
        with MotoEngine(clock=lambda: now):
            Stock.create_table(wait=True, billing_mode="PAY_PER_REQUEST")
            dynamodb = client()
            dynamodb.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once)
            now += TOKEN_LIFETIME + 1
            dynamodb.transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once)
            assert left(dynamodb, "tea") == 2

    def test_reset_forgets_tokens(self, once):
        with MotoEngine() as moto:
            for _ in range(2):
                moto.reset()
                Stock.create_table(wait=True, billing_mode="PAY_PER_REQUEST")
                client().transact_write_items(TransactItems=[add("tea")], ClientRequestToken=once)
                assert left(client(), "tea") == 1

    def test_moto_is_imported_when_an_engine_is_entered_and_not_before(self):
        run_python("""
            import sys
            import pynacount.testing
            assert not any(name.split(".")[0] in ("moto", "boto3") for name in sys.modules)
            with pynacount.testing.MotoEngine():
                assert "moto" in sys.modules
        """)

    def test_clients_made_before_moto_was_imported_are_caught(self):
        run_python("""
            from botocore.session import get_session
            from tests.shop import Stock
            from pynacount.testing import MotoEngine
            early = get_session().create_client(
                "dynamodb", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
            )
            with MotoEngine():
                assert not Stock.exists()
                Stock.create_table(wait=True, billing_mode="PAY_PER_REQUEST")
                assert early.list_tables()["TableNames"] == ["Shop"]
        """)

    def test_models_used_before_moto_was_imported_are_caught(self):
        run_python("""
            import os
            os.environ.update(
                AWS_ACCESS_KEY_ID="a",
                AWS_SECRET_ACCESS_KEY="b",
                AWS_DEFAULT_REGION="eu-west-1",
                AWS_ENDPOINT_URL_DYNAMODB="http://127.0.0.1:9",
            )
            from botocore.exceptions import EndpointConnectionError
            from tests.shop import Stock
            from pynacount.testing import MotoEngine
            try:
                Stock.count("SHOP")
            except Exception as error:
                assert isinstance(error.cause, EndpointConnectionError)
            else:
                raise AssertionError("something listens at port 9")
            with MotoEngine():
                assert not Stock.exists()
        """)

    def test_a_missing_moto_is_reported_with_the_extra_to_install(self):
        run_python("""
            import sys
            sys.modules["moto"] = None
            from pynacount.testing import MotoEngine
            try:
                MotoEngine().__enter__()
            except ImportError as error:
                assert 'pip install "pynacount[demo]"' in str(error), error
            else:
                raise AssertionError("entered without moto")
        """)


class TestDynamoDBLocal:
    def test_a_missing_java_is_reported_with_the_package_to_install(self, monkeypatch):
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(EngineUnavailable, match="openjdk-17-jre-headless"):
            DynamoDBLocalEngine().__enter__()

    def test_an_old_java_is_reported_with_the_package_to_install(self, monkeypatch, tmp_path):
        old = tmp_path / "bin" / "java"
        old.parent.mkdir()
        old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
        old.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        with pytest.raises(EngineUnavailable, match=r"newer Java .* openjdk-17-jre-headless"):
            java.find_java()

    @pytest.mark.parametrize(
        ("said", "version"),
        [
            ('openjdk version "17.0.15" 2025-04-15', 17),
            ('java version "1.8.0_392"', 8),
            ('openjdk version "21" 2023-09-19', 21),
            ("java: not found", None),
        ],
    )
    def test_the_version_of_java_is_read(self, said, version):
        assert java.java_version(said) == version

    def test_a_missing_npm_is_reported(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PYNACOUNT_CACHE", str(tmp_path))
        monkeypatch.setenv("PATH", "")
        with pytest.raises(EngineUnavailable, match="apt-get install npm"):
            dynamodb_package.dynamodb_local_folder()

    def test_an_archive_that_is_not_the_published_one_is_refused_and_not_kept(self, monkeypatch, tmp_path):
        fake_npm(monkeypatch, tmp_path, "echo rubbish > amplify-dynamodb-simulator-2.9.30.tgz")
        with pytest.raises(EngineUnavailable, match="not what was published"):
            dynamodb_package.dynamodb_local_folder()
        assert list((tmp_path / "cache").iterdir()) == []

    def test_a_failure_of_npm_is_reported_in_its_own_words(self, monkeypatch, tmp_path):
        fake_npm(monkeypatch, tmp_path, "echo no network >&2; exit 3")
        with pytest.raises(EngineUnavailable, match="status 3: no network"):
            dynamodb_package.dynamodb_local_folder()

    def test_the_second_of_two_processes_keeps_the_copy_of_the_first(self, tmp_path):
        first, second = tmp_path / "published", tmp_path / "unpacked"
        for folder in (first, second):
            folder.mkdir()
            (folder / "DynamoDBLocal.jar").write_text(folder.name)
        dynamodb_package._publish(second, first)
        assert (first / "DynamoDBLocal.jar").read_text() == "published"

    def test_the_cache_folder_is_where_the_environment_says(self, monkeypatch, tmp_path):
        monkeypatch.delenv("PYNACOUNT_CACHE", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", "/home/anybody")
        assert dynamodb_package.cache_folder() == Path("/home/anybody/.cache/pynacount")
        monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
        assert dynamodb_package.cache_folder() == Path("/xdg/pynacount")
        monkeypatch.setenv("PYNACOUNT_CACHE", str(tmp_path))
        assert dynamodb_package.cache_folder() == tmp_path

    def test_a_server_that_exits_is_reported_with_what_it_said(self, tmp_path, monkeypatch):
        dying = tmp_path / "java"
        dying.write_text("#!/bin/sh\necho cannot bind\nexit 1\n")
        dying.chmod(0o755)
        with pytest.raises(EngineUnavailable, match="cannot bind"):
            dynamodb_local.Server.start(str(dying), tmp_path)

    @pytest.mark.real_engine
    def test_a_port_that_was_taken_meanwhile_costs_another_try(self, engine, monkeypatch):
        taken = int(engine.endpoint_url.rsplit(":", 1)[1])
        ports = iter([taken, dynamodb_local._free_port()])
        monkeypatch.setattr(dynamodb_local, "_free_port", lambda: next(ports))
        with DynamoDBLocalEngine() as other:
            assert other.endpoint_url not in (None, engine.endpoint_url)

    @pytest.mark.real_engine
    def test_the_server_is_gone_after_leaving(self, engine):
        with DynamoDBLocalEngine() as other:
            port = int(other.endpoint_url.rsplit(":", 1)[1])
            assert listens(port)
        assert other.endpoint_url is None
        assert not listens(port)

    @pytest.mark.real_engine
    @pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
    def test_the_server_dies_with_a_process_that_is_killed(self, engine, end):
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import time; from pynacount.testing import engine; e = engine('dynamodb-local').__enter__();"
                "print(e.endpoint_url, flush=True); time.sleep(60)",
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        port = int(process.stdout.readline().rsplit(":", 1)[1])
        process.send_signal(end)
        process.communicate()
        deadline = time.monotonic() + 5
        while listens(port):
            assert time.monotonic() < deadline, "the server outlived the process that started it"
            time.sleep(0.05)

    @pytest.mark.real_engine
    def test_the_server_ends_with_a_process_that_never_left_the_engine(self, engine):
        said = run_python("""
            from pynacount.testing import engine
            print(engine("dynamodb-local").__enter__().endpoint_url)
        """)
        assert not listens(int(said.rsplit(":", 1)[1]))


class TestTables:
    def test_models_that_share_a_table_share_its_indexes(self, engine, tables):
        class ByShelf(GlobalSecondaryIndex):
            class Meta:
                index_name = "by-shelf"
                projection = AllProjection()

            shelf = UnicodeAttribute(hash_key=True)

        class Shelved(Model):
            class Meta:
                table_name = "Shop"

            pk = UnicodeAttribute(hash_key=True, attr_name="PK")
            sk = UnicodeAttribute(range_key=True, attr_name="SK")
            shelf = UnicodeAttribute()
            by_shelf = ByShelf()

        tables(Stock, Shelved)
        tables(Shelved)
        Shelved("SHOP", "tea", shelf="top").save()
        assert [found.sk for found in Shelved.by_shelf.query("top")] == ["tea"]


ROOT = Path(__file__).parent.parent


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run_python(program: str) -> str:
    """Run a program in a new interpreter, without the AWS settings of this one; its output."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fake_npm(monkeypatch: pytest.MonkeyPatch, folder: Path, does: str) -> None:
    """Put an ``npm`` on the path that does this, and an empty cache beside it."""
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{does}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("PYNACOUNT_CACHE", str(folder / "cache"))
