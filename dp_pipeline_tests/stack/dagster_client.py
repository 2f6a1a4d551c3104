"""A client of a Dagster web server: the GraphQL that the UI itself speaks, over loopback."""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dp_pipeline.orchestration.renewal import SENSOR

LOCATION = "dp_pipeline"
REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": LOCATION}
FINISHED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
_TAGS = ("dagster/backfill", "dagster/partition")
_SENSOR_TAG = "dagster/sensor_name"

# Never through a proxy, whatever the environment says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class GraphQLError(AssertionError):
    """The server answered, with an error."""


@dataclass(frozen=True)
class Run:
    """One run as the server tells it.

    status      QUEUED, STARTING, STARTED, SUCCESS, FAILURE, CANCELED, …
    backfill    id of the backfill it belongs to; empty where there is none
    partition   empty where there is none
    """

    id: str
    status: str
    job: str
    backfill: str
    partition: str
    tags: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED


@dataclass(frozen=True)
class Backfill:
    """One backfill as the server tells it.

    status   REQUESTED, COMPLETED_SUCCESS, COMPLETED_FAILED, CANCELED, FAILED, …
    error    why the backfill itself failed; empty where it did not
    """

    id: str
    status: str
    error: str


@dataclass(frozen=True)
class Client:
    """Asks the web server at ``url``; OSError where none is, GraphQLError where it refuses."""

    url: str

    def ask(self, query: str, **variables: Any) -> Mapping[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/graphql", body, headers)
        with _OPENER.open(request, timeout=60) as answer:
            told = json.load(answer)
        if told.get("errors"):
            raise GraphQLError("; ".join(str(one["message"]) for one in told["errors"]))
        data: Mapping[str, Any] = told["data"]
        return data

    def result(self, query: str, *, expected: str, **variables: Any) -> Mapping[str, Any]:
        """The one field of a query, which must be of the expected type."""
        (found,) = self.ask(query, **variables).values()
        if found["__typename"] != expected:
            raise GraphQLError(f"expected {expected}, got {json.dumps(found)[:600]}")
        return dict(found)

    def location_error(self) -> str | None:
        """Why the code location did not load, empty where it did; None while it loads."""
        found = self.result(_LOCATIONS, expected="Workspace")
        for entry in found["locationEntries"]:
            loaded = entry["locationOrLoadError"]
            if entry["loadStatus"] == "LOADED" and loaded:
                return str(loaded.get("message", ""))
        return None

    def reload(self) -> None:
        self.ask(_RELOAD, name=LOCATION)

    def heartbeats(self) -> dict[str, float]:
        """Daemon → seconds since 1970 of its last sign of life."""
        health = self.ask(_DAEMONS)["instance"]["daemonHealth"]["allDaemonStatuses"]
        return {one["daemonType"]: one["lastHeartbeatTime"] or 0.0 for one in health}

    def launch_backfill(self, assets: Sequence[Sequence[str]], partitions: Sequence[str]) -> str:
        """A backfill over assets, as the dialog of the UI launches it; its id."""
        selection = [{"path": list(path)} for path in assets]
        params = {"assetSelection": selection, "partitionNames": list(partitions), "title": ""}
        found = self.result(_BACKFILL, expected="LaunchBackfillSuccess", params=params)
        return str(found["backfillId"])

    def retry_backfill(self, backfill: str) -> str:
        """Launch again what failed of a backfill, as "re-execute from failure" does; the new id."""
        params = {"parentRunId": backfill, "strategy": "FROM_FAILURE"}
        found = self.result(_RETRY, expected="LaunchBackfillSuccess", params=params)
        return str(found["backfillId"])

    def backfill(self, backfill: str) -> Backfill:
        found = self.result(_BACKFILL_STATUS, expected="PartitionBackfill", id=backfill)
        error = (found["error"] or {}).get("message", "")
        return Backfill(backfill, found["status"], error)

    def backfills(self) -> list[str]:
        found = self.result(_BACKFILLS, expected="PartitionBackfills")
        return [one["id"] for one in found["results"]]

    def runs(self, backfill: str = "") -> list[Run]:
        """Every run that somebody asked for, or those of one backfill, the newest first. Those that
        renew reports come whenever their sensor looks: ``renewals``.
        """
        tags = [{"key": "dagster/backfill", "value": backfill}] if backfill else []
        return [run for run in self._runs(tags) if run.tags.get(_SENSOR_TAG) != SENSOR]

    def renewals(self) -> list[Run]:
        """Every run that renews a report by itself, the newest first."""
        return self._runs([{"key": _SENSOR_TAG, "value": SENSOR}])

    def _runs(self, tags: list[dict[str, str]]) -> list[Run]:
        found = self.result(_RUNS, expected="Runs", filter={"tags": tags} if tags else {})
        return [_run(one) for one in found["results"]]

    def cancel(self, run: str) -> None:
        """Mark a run as canceled, wherever its process is."""
        self.result(_CANCEL, expected="TerminateRunSuccess", id=run)

    def check_results(self, asset: Sequence[str], check: str) -> list[str]:
        """Statuses of the executions of one asset check, the newest first."""
        found = self.ask(_CHECKS, key={"path": list(asset)}, name=check)["assetCheckExecutions"]
        return [one["status"] for one in found]

    def schedules(self) -> dict[str, str]:
        found = self.result(_SCHEDULES, expected="Schedules", selector=REPOSITORY)
        return {one["name"]: one["scheduleState"]["status"] for one in found["results"]}

    def sensors(self) -> dict[str, str]:
        found = self.result(_SENSORS, expected="Sensors", selector=REPOSITORY)
        return {one["name"]: one["sensorState"]["status"] for one in found["results"]}

    def start_schedule(self, name: str) -> None:
        selector = {**REPOSITORY, "scheduleName": name}
        self.result(_START_SCHEDULE, expected="ScheduleStateResult", selector=selector)


def _run(told: Mapping[str, Any]) -> Run:
    tags = {tag["key"]: tag["value"] for tag in told["tags"]}
    backfill, partition = (tags.get(name, "") for name in _TAGS)
    return Run(told["runId"], told["status"], told["jobName"], backfill, partition, tags)


_ERROR = "... on Error { message }"
_LOCATIONS = f"""query {{ workspaceOrError {{ __typename
  ... on Workspace {{ locationEntries {{ name loadStatus locationOrLoadError {{ __typename
    ... on RepositoryLocation {{ name }} {_ERROR} }} }} }} {_ERROR} }} }}"""
_RELOAD = """mutation($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) { __typename } }"""
_DAEMONS = """query { instance { daemonHealth { allDaemonStatuses {
  daemonType healthy lastHeartbeatTime } } } }"""
_BACKFILL = f"""mutation($params: LaunchBackfillParams!) {{
  launchPartitionBackfill(backfillParams: $params) {{ __typename
    ... on LaunchBackfillSuccess {{ backfillId }} {_ERROR} }} }}"""
_RETRY = f"""mutation($params: ReexecutionParams) {{
  reexecutePartitionBackfill(reexecutionParams: $params) {{ __typename
    ... on LaunchBackfillSuccess {{ backfillId }} {_ERROR} }} }}"""
_BACKFILL_STATUS = f"""query($id: String!) {{
  partitionBackfillOrError(backfillId: $id) {{ __typename
    ... on PartitionBackfill {{ id status error {{ message }} }} {_ERROR} }} }}"""
_BACKFILLS = f"""query {{ partitionBackfillsOrError {{ __typename
  ... on PartitionBackfills {{ results {{ id }} }} {_ERROR} }} }}"""
_RUNS = f"""query($filter: RunsFilter) {{ runsOrError(filter: $filter) {{ __typename
  ... on Runs {{ results {{ runId status jobName tags {{ key value }} }} }} {_ERROR} }} }}"""
_CANCEL = f"""mutation($id: String!) {{
  terminateRun(runId: $id, terminatePolicy: MARK_AS_CANCELED_IMMEDIATELY) {{ __typename
    ... on TerminateRunFailure {{ message }} {_ERROR} }} }}"""
_CHECKS = """query($key: AssetKeyInput!, $name: String!) {
  assetCheckExecutions(assetKey: $key, checkName: $name, limit: 100) { status } }"""
_SCHEDULES = f"""query($selector: RepositorySelector!) {{
  schedulesOrError(repositorySelector: $selector) {{ __typename
    ... on Schedules {{ results {{ name scheduleState {{ status }} }} }} {_ERROR} }} }}"""
_SENSORS = f"""query($selector: RepositorySelector!) {{
  sensorsOrError(repositorySelector: $selector) {{ __typename
    ... on Sensors {{ results {{ name sensorState {{ status }} }} }} {_ERROR} }} }}"""
_START_SCHEDULE = f"""mutation($selector: ScheduleSelector!) {{
  startSchedule(scheduleSelector: $selector) {{ __typename
    ... on ScheduleStateResult {{ scheduleState {{ status }} }} {_ERROR} }} }}"""
