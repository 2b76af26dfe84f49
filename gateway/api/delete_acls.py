"""DeleteAcls (key 31), versions 1 to 3: the ACLs that filters mean.

Behaviour
  Each filter is answered with the ACLs that it meant and that were deleted by this request: two filters may
  both name one, and one that somebody else was faster to delete is named by none. They are out of force on
  this gateway when the answer goes out, and on others as they follow. Codes that Kafka does not define are
  INVALID_REQUEST for their filter; "unknown" (code 0) closes the connection
  (`DeleteAclsRequest.normalizeAndValidate`). Without an authorizer each is SECURITY_DISABLED. A client needs
  ALTER on the cluster. More ACLs than one request may delete are INVALID_REQUEST for every filter, and
  nothing is deleted.

Version notes
  v2 is flexible, v3 knows one more kind of resource.

Differs from Kafka
  So is it where the filters would name more than `MAX_NAMED` ACLs together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gateway.administration.acl_requests import (
    check_filter,
    check_known,
    codes_of_filter,
    filter_of,
    matching,
    may,
    reserve_answer,
)
from gateway.administration.no_authorizer import security_disabled
from gateway.answers.element_limit import check_elements
from gateway.answers.encoding import answer_of
from gateway.cluster.acls import MAX_CHANGED_ACLS
from gateway.common.costs import ELEMENT
from gateway.common.handlers import Request, Response, api
from gateway.security.acls import Operation
from wireproto.kafka.api_keys import ApiKey
from wireproto.kafka.errors import ErrorCode, KafkaError
from wireproto.kafka.schemas import RESPONSE_CLASSES

if TYPE_CHECKING:
    from gateway.broker import Broker
    from gateway.security.acls import Acl

MAX_NAMED: Final = 50_000
"""ACLs that the answers to all filters of a request name together: filters of a few bytes could name all that
there are over and over.
"""

_Answer: Any = RESPONSE_CLASSES[ApiKey.DELETE_ACLS]
_Result: Any = _Answer.DeleteAclsFilterResult
_Matching: Any = _Result.DeleteAclsMatchingAcl

_Found: TypeAlias = "Mapping[str, Acl] | KafkaError"
"""What a filter means, by key; or what is against it."""


@api(key=ApiKey.DELETE_ACLS, name="DeleteAcls", min_version=1, max_version=3)
async def delete_acls(request: Request, broker: Broker) -> Response:
    """Delete what the filters mean. Raises MalformedRequest."""
    filters = request.body.filters
    check_elements(len(filters), "filters of ACLs")
    await check_known(map(codes_of_filter, filters), "a filter of ACLs to be deleted", request.work)
    if not may(request, Operation.ALTER):
        results = [_refused(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))] * len(filters)
    elif not broker.acls.is_on:
        results = [security_disabled(_Result, matching_acls=[])] * len(filters)
    else:
        try:
            results = await _delete(request, broker)
        except KafkaError as failed:
            results = [_refused(failed)] * len(filters)
    named = sum(len(result.matching_acls) for result in results)
    return await answer_of(len(results) + named, request, _Answer(throttle_time_ms=0, filter_results=results))


async def _delete(request: Request, broker: Broker) -> list[Any]:
    """The results. Raises KafkaError: nothing was deleted, or nobody knows."""
    await broker.catch_up()
    found = await _find(request, broker)
    acls = {key: acl for each in found if not isinstance(each, KafkaError) for key, acl in each.items()}
    # Before anything is deleted: who has waited for memory, and is gone, has changed nothing.
    named = [acl for each in found if not isinstance(each, KafkaError) for acl in each.values()]
    await reserve_answer(request, named)
    deleted: set[str] = set()
    if acls:
        revisions = {key: revision for key in acls if (revision := broker.acls.revision(key)) is not None}
        deleted = await broker.delete_acls(revisions)
        await broker.remembered()
    results = []
    for each in found:
        await request.work.before(ELEMENT)
        if isinstance(each, KafkaError):
            results.append(_refused(each))
            continue
        gone = (acl for key, acl in each.items() if key in deleted)
        matching_acls = await request.work.each(_matching, gone)
        results.append(_Result(error_code=ErrorCode.NONE, error_message=None, matching_acls=matching_acls))
    return results


async def _find(request: Request, broker: Broker) -> list[_Found]:
    """What each filter means. Raises KafkaError: INVALID_REQUEST, too much."""
    found: list[_Found] = []
    keys: set[str] = set()
    named = 0
    acls = broker.acls.all()
    for one in request.body.filters:
        await request.work.before(ELEMENT)
        wanted = filter_of(one)
        try:
            check_filter(wanted)
        except KafkaError as refused:
            found.append(refused)
            continue
        its = await matching(acls, wanted, request.work)
        found.append(its)
        keys.update(its)
        named += len(its)
        if len(keys) > MAX_CHANGED_ACLS or named > MAX_NAMED:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Cannot remove more than {MAX_CHANGED_ACLS} acls in a single delete operation, nor name "
                f"more than {MAX_NAMED} in its answer: ask for fewer at a time.",
            )
    return found


def _refused(refusal: KafkaError) -> Any:
    return _Result(error_code=refusal.code, error_message=refusal.message, matching_acls=[])


def _matching(acl: Acl) -> Any:
    return _Matching(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
