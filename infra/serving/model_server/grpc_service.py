"""The gRPC side: TensorFlow Serving's PredictionService and ModelService over `Inference`."""

import logging
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from components.core.errors import ConfigError
from infra.serving.model_server.config import ModelConfig, from_proto
from infra.serving.model_server.faults import Code, ServingFault
from infra.serving.model_server.inference import Inference
from infra.serving.model_server.library import VersionStatus
from infra.serving.model_server.loader import Loader

LOG = logging.getLogger("tandem.serve")
_RELOAD_TIMEOUT_S, _RELOAD_POLL_S = 600.0, 0.02


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Inference."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def Predict(self, request: Any, context: Any) -> Any:
        """Tensors in, tensors out."""
        return self._answer("Predict", self._inference.predict, request, predict_pb2.PredictResponse(), context)

    def Classify(self, request: Any, context: Any) -> Any:
        """tf.Examples in, classes and scores out."""
        response = classification_pb2.ClassificationResponse()
        return self._answer("Classify", self._inference.classify, request, response, context)

    def Regress(self, request: Any, context: Any) -> Any:
        """tf.Examples in, values out."""
        response = regression_pb2.RegressionResponse()
        return self._answer("Regress", self._inference.regress, request, response, context)

    def MultiInference(self, request: Any, context: Any) -> Any:
        """Several of both on the same tf.Examples."""
        response = inference_pb2.MultiInferenceResponse()
        return self._answer("MultiInference", self._inference.multi_inference, request, response, context)

    def GetModelMetadata(self, request: Any, context: Any) -> Any:
        """Signatures."""
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        return _guarded(lambda: self._inference.metadata(request, response), response, context)

    def _answer(self, api: str, method: Callable[..., None], request: Any, response: Any, context: Any) -> Any:
        name = _model_of(request)
        began = time.perf_counter()
        status = "INTERNAL"
        try:
            left = context.time_remaining()
            method(request, response, timeout_s=left if left is not None and left < 1e6 else None)
            status = "OK"
            return response
        except ServingFault as fault:
            status = fault.code.name
            return _refuse(context, fault)
        except Exception as error:
            LOG.exception("%s of %s failed: %s", api, name, type(error).__name__)
            return _refuse(context, ServingFault(Code.INTERNAL, "the server failed on this request; its log says why"))
        finally:
            self._inference.metrics.request(name, api, "GRPC", status=status, latency_s=time.perf_counter() - began)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Status and reconfiguration."""

    def __init__(self, inference: Inference, loader: Loader) -> None:
        self._inference, self._loader = inference, loader

    def GetModelStatus(self, request: Any, context: Any) -> Any:
        """States of versions."""
        response = get_model_status_pb2.GetModelStatusResponse()
        return _guarded(lambda: self._inference.status(request, response), response, context)

    def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:
        """Replaces the whole configuration, and answers when every wanted version is loaded."""
        response = model_management_pb2.ReloadConfigResponse()
        return _guarded(lambda: self._reload(request), response, context)

    def _reload(self, request: Any) -> None:
        if request.config.WhichOneof("config") != "model_config_list":
            raise ServingFault(
                Code.INVALID_ARGUMENT,
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently supported",
            )
        try:
            configs = from_proto(request.config, "the reload request")
        except ConfigError as error:
            raise ServingFault(Code.INVALID_ARGUMENT, str(error)) from error
        library = self._inference.library
        library.require_labels_available(configs)
        library.configure(configs)
        self._loader.wake()
        deadline = time.monotonic() + _RELOAD_TIMEOUT_S
        while not library.settled() and time.monotonic() < deadline:
            time.sleep(_RELOAD_POLL_S)
        lacking = [(config, status) for config in configs for status in self._lacking(config)]
        if lacking:
            said = "".join(
                f"{{{{name: {config.name} version: {status.version}}} due to error: {status.code.name}: {status.message}}}, "
                for config, status in lacking
            )
            raise ServingFault(Code.UNKNOWN, f"{len(lacking)} model(s) did not become available: {{{said}}}")

    def _lacking(self, config: ModelConfig) -> list[VersionStatus]:
        """Wanted versions of a model that did not load."""
        try:
            statuses = self._inference.library.statuses(config.name)
        except ServingFault as fault:
            return [VersionStatus(0, "END", fault.code, fault.message)]
        wanted = config.wanted({status.version for status in statuses})
        return [status for status in statuses if status.version in wanted and status.state == "END" and status.code is not Code.OK]


def _model_of(request: Any) -> str:
    """The model that a request names; of MultiInference that of its first task."""
    spec = request.model_spec if hasattr(request, "model_spec") else request.tasks[0].model_spec if request.tasks else None
    return str(spec.name) if spec is not None else ""


def _guarded(call: Callable[[], None], response: Any, context: Any) -> Any:
    try:
        call()
    except ServingFault as fault:
        return _refuse(context, fault)
    except (DecodeError, ValueError) as error:
        return _refuse(context, ServingFault(Code.INVALID_ARGUMENT, str(error)))
    return response


def _refuse(context: Any, fault: ServingFault) -> None:
    context.abort(grpc.StatusCode[fault.code.name], fault.message)


def make_server(inference: Inference, loader: Loader, *, address: str, max_message_bytes: int, threads: int) -> tuple[Any, int]:
    """A gRPC server that is not started yet, and the port that it will listen on.

    Raises:
        RuntimeError: the address cannot be listened on.
    """
    options = [("grpc.max_receive_message_length", max_message_bytes), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(threads, thread_name_prefix="grpc"), options=options)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(inference), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(inference, loader), server)
    return server, int(server.add_insecure_port(address))
