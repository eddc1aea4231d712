"""What the injector and the recorder promise, on every engine."""

from __future__ import annotations

import threading
from collections import Counter
from uuid import uuid4

import boto3
import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from pynamodb.connection import Connection
from pynamodb.exceptions import PutError, TransactWriteError
from pynamodb.transactions import TransactWrite

from pynacount.testing import Call, ErrorAnswer, Fault, FaultInjector, record_requests
from tests.shop import ONE_TRY, Stock, add, client, key, left, put_new

LOST = (ReadTimeoutError, ConnectionClosedError)


@pytest.fixture
def shop(tables):
    tables(Stock)
    return client()


@pytest.fixture
def once() -> str:
    """A token; a new one for each test, for DynamoDB Local remembers tokens beyond the tables they wrote to."""
    return str(uuid4())


def like(shop, token):
    """A transaction of two writes, as a counted write is."""
    shop.transact_write_items(TransactItems=[put_new("receipt"), add("tea")], ClientRequestToken=token)


def codes(error: pytest.ExceptionInfo[ClientError]) -> list[str]:
    return [reason["Code"] for reason in error.value.response["CancellationReasons"]]


def error_code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


class TestFaults:
    def test_a_lost_response_leaves_the_write_in_place(self, shop, once):
        with FaultInjector(shop) as injector:
            injector.next(Fault.LOST_RESPONSE)
            with pytest.raises(LOST):
                like(shop, once)
        assert left(shop, "tea") == 1

    def test_a_lost_response_is_remembered_by_its_token(self, shop, once):
        with FaultInjector(shop) as injector:
            injector.next(Fault.LOST_RESPONSE)
            with pytest.raises(LOST):
                like(shop, once)
            like(shop, once)
        assert left(shop, "tea") == 1

    def test_the_lost_response_of_a_refused_write_leaves_nothing(self, shop, once):
        shop.put_item(TableName="Shop", Item=key("receipt"))
        with FaultInjector(shop) as injector:
            injector.next(Fault.LOST_RESPONSE)
            with pytest.raises(LOST):
                like(shop, once)
        assert left(shop, "tea") is None

    def test_both_ways_to_lose_a_response_happen(self, shop):
        raised = set()
        with FaultInjector(shop, rates={Fault.LOST_RESPONSE: 1}) as injector:
            for _ in range(20):
                with pytest.raises(LOST) as error:
                    shop.put_item(TableName="Shop", Item=key("tea"))
                raised.add(error.type)
        assert raised == set(LOST)
        assert injector.injected == 20

    @pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.LOST_RESPONSE])
    def test_no_other_fault_writes_anything(self, shop, fault, once):
        with FaultInjector(shop) as injector:
            injector.next(fault)
            with pytest.raises((ClientError, EndpointConnectionError)):
                like(shop, once)
            assert injector.pending == 0
        assert left(shop, "tea") is None
        assert "Item" not in shop.get_item(TableName="Shop", Key=key("receipt"))

    def test_a_conflict_cancels_a_transaction_for_one_of_its_writes(self, shop, once):
        seen = set()
        with FaultInjector(shop, rates={Fault.CONFLICT: 1}):
            for _ in range(20):
                with pytest.raises(shop.exceptions.TransactionCanceledException) as cancelled:
                    like(shop, once)
                seen.add(tuple(codes(cancelled)))
        assert seen == {("TransactionConflict", "None"), ("None", "TransactionConflict")}
        assert "[TransactionConflict, None]" in str(cancelled.value) or "[None, Trans" in str(cancelled.value)

    def test_a_conflict_refuses_a_write_of_one_item(self, shop):
        with FaultInjector(shop) as injector:
            injector.next(Fault.CONFLICT)
            with pytest.raises(ClientError) as refused:
                shop.put_item(TableName="Shop", Item=key("tea"))
        assert error_code(refused) == "TransactionConflictException"

    def test_a_mixed_cancellation_names_both_reasons(self, shop):
        with FaultInjector(shop) as injector:
            injector.next(Fault.MIXED)
            with pytest.raises(shop.exceptions.TransactionCanceledException) as cancelled:
                shop.transact_write_items(TransactItems=[add("tea"), add("salt"), add("milk")])
        assert sorted(codes(cancelled)) == ["None", "ThrottlingError", "TransactionConflict"]

    def test_a_throttled_write_of_one_item_is_told_so(self, shop):
        with FaultInjector(shop) as injector:
            injector.next(Fault.THROTTLE)
            with pytest.raises(shop.exceptions.ProvisionedThroughputExceededException):
                shop.put_item(TableName="Shop", Item=key("tea"))

    def test_a_throttled_transaction_is_told_in_all_the_ways_there_are(self, shop):
        seen = set()
        with FaultInjector(shop, rates={Fault.THROTTLE: 1}):
            for _ in range(30):
                with pytest.raises(ClientError) as throttled:
                    shop.transact_write_items(TransactItems=[add("tea")])
                reasons = throttled.value.response.get("CancellationReasons", ())
                seen.add((error_code(throttled), *(reason["Code"] for reason in reasons)))
        assert seen == {
            ("ProvisionedThroughputExceededException",),
            ("TransactionCanceledException", "ProvisionedThroughputExceeded"),
            ("TransactionCanceledException", "ThrottlingError"),
        }

    def test_an_internal_error_has_status_500(self, shop):
        with FaultInjector(shop) as injector:
            injector.next(Fault.INTERNAL_ERROR)
            with pytest.raises(shop.exceptions.InternalServerError) as failed:
                shop.get_item(TableName="Shop", Key=key("tea"))
        assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


class TestScripts:
    def test_a_script_is_followed_in_order_and_then_calls_pass(self, shop, once):
        with FaultInjector(shop) as injector:
            injector.next(Fault.INTERNAL_ERROR, None, Fault.CONFLICT, operation="TransactWriteItems")
            with pytest.raises(shop.exceptions.InternalServerError):
                like(shop, once)
            like(shop, once)
            with pytest.raises(shop.exceptions.TransactionCanceledException):
                like(shop, once)
            like(shop, once)
        assert [call.fault for call in injector.log] == [Fault.INTERNAL_ERROR, None, Fault.CONFLICT, None]
        assert left(shop, "tea") == 1

    def test_a_script_waits_for_its_operation(self, shop, once):
        with FaultInjector(shop) as injector:
            injector.next(Fault.INTERNAL_ERROR, operation="TransactWriteItems")
            assert left(shop, "tea") is None
            assert injector.pending == 1
            with pytest.raises(ClientError):
                like(shop, once)
        assert injector.log == [Call("GetItem", None), Call("TransactWriteItems", Fault.INTERNAL_ERROR)]

    def test_a_fault_waits_for_a_call_that_it_can_hit(self, shop, once):
        with FaultInjector(shop) as injector:
            injector.next(Fault.MIXED)
            shop.describe_table(TableName="Shop")
            shop.get_item(TableName="Shop", Key=key("tea"))
            shop.put_item(TableName="Shop", Item=key("tea"))
            shop.transact_write_items(TransactItems=[add("tea")])
            with pytest.raises(shop.exceptions.TransactionCanceledException):
                like(shop, once)
        assert [call.fault for call in injector.log] == [None, None, None, None, Fault.MIXED]

    def test_operations_on_tables_are_hit_only_when_named(self, shop):
        with FaultInjector(shop) as injector:
            injector.next(Fault.INTERNAL_ERROR)
            injector.next(Fault.INTERNAL_ERROR, operation="DescribeTable")
            with pytest.raises(ClientError):
                shop.describe_table(TableName="Shop")
            shop.describe_table(TableName="Shop")
        assert injector.pending == 1

    def test_any_error_can_be_given_as_the_answer(self, shop, once):
        item = {**key("tea"), "left": {"S": "many"}}
        reasons = [None, {"Code": "ConditionalCheckFailed", "Message": "no", "Item": item}]
        with FaultInjector(shop) as injector:
            injector.next_error("TransactionCanceledException", "because", reasons=reasons)
            with pytest.raises(shop.exceptions.TransactionCanceledException) as cancelled:
                like(shop, once)
            injector.next_error("UnrecognizedClientException", "who are you", status=401, operation="GetItem")
            with pytest.raises(ClientError, match="who are you") as refused:
                shop.get_item(TableName="Shop", Key=key("tea"))
        assert cancelled.value.response["CancellationReasons"] == [{"Code": "None"}, reasons[1]]
        assert cancelled.value.response["Error"]["Message"] == "because"
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 401
        assert isinstance(injector.log[0].fault, ErrorAnswer)

    def test_nothing_is_injected_after_leaving(self, shop, once):
        with FaultInjector(shop, rates={Fault.INTERNAL_ERROR: 1}) as injector:
            injector.next(Fault.CONFLICT)
        like(shop, once)
        assert injector.log == []


class TestRates:
    def run(self, shop, seed: int) -> list[Fault | None]:
        rates = {Fault.CONFLICT: 0.3, Fault.LOST_RESPONSE: 0.2}
        with FaultInjector(shop, rates=rates, seed=seed) as injector:
            for _ in range(60):
                try:
                    like(shop, token=str(uuid4()))
                except (ClientError, *LOST):
                    pass
        return [call.fault for call in injector.log]

    def test_a_seed_gives_the_same_faults_again(self, shop):
        assert self.run(shop, seed=7) == self.run(shop, seed=7) != self.run(shop, seed=8)

    def test_faults_come_about_as_often_as_asked(self, shop):
        with FaultInjector(shop, rates={Fault.INTERNAL_ERROR: 0.3, Fault.LOST_RESPONSE: 0.2}) as injector:
            for _ in range(400):
                try:
                    shop.get_item(TableName="Shop", Key=key("tea"))
                except (ClientError, *LOST):
                    pass
        counted = Counter(call.fault for call in injector.log)
        assert counted[Fault.INTERNAL_ERROR] == pytest.approx(120, abs=30)
        assert counted[Fault.LOST_RESPONSE] == pytest.approx(80, abs=25)
        assert sum(counted.values()) == 400

    def test_only_the_chosen_operations_are_hit(self, shop, once):
        with FaultInjector(shop, rates={Fault.INTERNAL_ERROR: 1}, operations=["Query"]) as injector:
            like(shop, once)
            with pytest.raises(ClientError):
                shop.query(
                    TableName="Shop",
                    KeyConditionExpression="PK = :pk",
                    ExpressionAttributeValues={":pk": {"S": "SHOP"}},
                )
        assert injector.injected == 1

    def test_rates_that_cannot_be_are_refused(self):
        with pytest.raises(ValueError, match="add up to 1"):
            FaultInjector(rates={Fault.CONFLICT: 0.6, Fault.THROTTLE: 0.6})
        with pytest.raises(ValueError, match="0 or more"):
            FaultInjector(rates={Fault.CONFLICT: -0.1})

    @pytest.mark.real_engine
    def test_under_threads_every_call_is_logged_and_every_commit_is_there(self, shop):
        committed = []

        def work(name: int) -> None:
            for number in range(25):
                try:
                    shop.transact_write_items(TransactItems=[add("tea"), put_new(f"{name}-{number}")])
                except LOST:
                    committed.append(1)
                except ClientError:
                    pass
                else:
                    committed.append(1)

        rates = {Fault.CONFLICT: 0.2, Fault.LOST_RESPONSE: 0.2, Fault.THROTTLE: 0.1}
        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        with FaultInjector(shop, rates=rates) as injector:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(injector.log) == 100
        assert 0 < injector.injected < 100
        assert left(shop, "tea") == len(committed)


class TestRetries:
    def test_botocore_s_own_retry_of_a_lost_response_counts_once(self, shop, once):
        retrying = client(attempts=3)
        with FaultInjector(retrying) as injector:
            injector.next(Fault.LOST_RESPONSE, Fault.LOST_RESPONSE)
            like(retrying, once)
        assert [call.fault for call in injector.log] == [Fault.LOST_RESPONSE, Fault.LOST_RESPONSE, None]
        assert left(shop, "tea") == 1

    def test_botocore_s_own_retry_gets_past_an_internal_error(self, shop, once):
        retrying = client(attempts=3)
        with FaultInjector(retrying) as injector:
            injector.next(Fault.INTERNAL_ERROR, Fault.REFUSED_CONNECTION)
            like(retrying, once)
        assert left(shop, "tea") == 1


class TestClients:
    def test_a_pynamodb_model_meets_faults_as_its_own_errors(self, engine, tables):
        tables(Stock)
        with FaultInjector(Stock._get_connection().connection.client) as injector:
            injector.next(Fault.LOST_RESPONSE)
            with pytest.raises(PutError) as lost:
                Stock("SHOP", "tea", left=5).save()
            assert isinstance(lost.value.cause, LOST)
        assert Stock.get("SHOP", "tea").left == 5

    def test_a_pynamodb_transaction_meets_a_conflict_with_its_reasons(self, engine, tables):
        tables(Stock)
        connection = Connection(retry_configuration=ONE_TRY)
        with FaultInjector(connection.client) as injector, pytest.raises(TransactWriteError) as cancelled:
            injector.next(Fault.CONFLICT)
            with TransactWrite(connection=connection) as transaction:
                transaction.save(Stock("SHOP", "tea"))
        assert [reason.code for reason in cancelled.value.cancellation_reasons] == ["TransactionConflict"]

    def test_one_injector_serves_several_clients(self, shop):
        other = boto3.client("dynamodb")
        with FaultInjector(shop, other) as injector:
            injector.next(Fault.CONFLICT, Fault.CONFLICT)
            for each in (shop, other):
                with pytest.raises(ClientError):
                    each.put_item(TableName="Shop", Item=key("tea"))


class TestRecording:
    def test_what_is_recorded_is_what_was_sent(self, shop, once):
        with record_requests(shop) as sent:
            like(shop, once)
            left(shop, "tea")
        assert sent == [
            (
                "TransactWriteItems",
                {"TransactItems": [put_new("receipt"), add("tea")], "ClientRequestToken": once},
            ),
            ("GetItem", {"TableName": "Shop", "Key": key("tea"), "ConsistentRead": True}),
        ]

    def test_nothing_is_recorded_after_leaving(self, shop, once):
        with record_requests(shop) as sent:
            pass
        like(shop, once)
        assert sent == []

    @pytest.mark.parametrize("injector_first", [True, False])
    def test_attempts_that_were_sent_are_recorded_and_a_refused_connection_is_not(self, shop, injector_first, once):
        retrying = client(attempts=4)
        injector, recorder = FaultInjector(retrying), record_requests(retrying)
        outer, inner = (injector, recorder) if injector_first else (recorder, injector)
        injector.next(Fault.LOST_RESPONSE, Fault.REFUSED_CONNECTION, Fault.INTERNAL_ERROR)
        with outer as entered_first, inner as entered_second:
            like(retrying, once)
        sent = entered_second if injector_first else entered_first
        assert [operation for operation, _ in sent] == ["TransactWriteItems"] * 3
        assert {request["ClientRequestToken"] for _, request in sent} == {once}
