//! A client with only the address and a key: it discovers the methods by reflection and calls them.

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, SerializeOptions};
use serde_json::{Value, json};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1alpha;
use undertone_api::job::{NewJob, Spec};

use super::{scene, serve};
use crate::testing::{Person, on_both};

/// A codec for messages that are known only by their descriptors.
#[derive(Clone)]
struct Dynamic(MethodDescriptor);

impl Codec for Dynamic {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for Dynamic {
    type Item = DynamicMessage;
    type Error = tonic::Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), tonic::Status> {
        message.encode(buffer).map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

impl Decoder for Dynamic {
    type Item = DynamicMessage;
    type Error = tonic::Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, tonic::Status> {
        let message = DynamicMessage::decode(self.0.output(), buffer);
        message.map(Some).map_err(|error| tonic::Status::internal(error.to_string()))
    }
}

async fn ask(client: &mut ServerReflectionClient<Channel>, request: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
    answers.message().await.unwrap().unwrap().message_response.unwrap()
}

/// Returns the descriptors of a service and of its dependencies.
async fn learn(client: &mut ServerReflectionClient<Channel>, service: &str) -> DescriptorPool {
    let (mut pool, mut wanted) =
        (DescriptorPool::new(), vec![MessageRequest::FileContainingSymbol(service.to_owned())]);
    let mut files = Vec::new();
    while let Some(request) = wanted.pop() {
        let MessageResponse::FileDescriptorResponse(found) = ask(client, request).await else {
            panic!("no descriptors")
        };
        for bytes in found.file_descriptor_proto {
            let file = prost_types::FileDescriptorProto::decode(bytes.as_slice()).unwrap();
            wanted.extend(file.dependency.iter().cloned().map(MessageRequest::FileByFilename));
            files.insert(0, file);
        }
    }
    let mut names = std::collections::BTreeSet::new();
    files.retain(|file| names.insert(file.name().to_owned()));
    pool.add_file_descriptor_protos(files).unwrap();
    pool
}

/// Calls a method by its name, with JSON for input and output.
async fn call(channel: &Channel, pool: &DescriptorPool, person: &Person, method: &str, message: Value) -> Value {
    let service = pool.get_service_by_name("undertone.v1.Control").unwrap();
    let method = service.methods().find(|known| known.name() == method).expect("a method of the service");
    let message = DynamicMessage::deserialize(method.input(), message).unwrap();
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", person.bearer().parse().unwrap());
    let path = format!("/{}/{}", service.full_name(), method.name()).parse().unwrap();
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let answer = grpc.unary(request, path, Dynamic(method)).await.unwrap().into_inner();
    let options = SerializeOptions::new().use_proto_field_name(true);
    answer.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}

on_both! {
    async fn job_is_proposed_and_read_by_reflection_alone(app: &TestApp) {
        let (world, researcher, _) = scene(app).await;
        let channel = serve(&app.ctx).await;
        let mut reflection = ServerReflectionClient::new(channel.clone());
        let MessageResponse::ListServicesResponse(services) = ask(&mut reflection, MessageRequest::ListServices(String::new())).await
        else { panic!("no list") };
        let names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
        for service in ["undertone.v1.Control", "undertone.v1.WorkerGateway", "grpc.health.v1.Health"] {
            assert!(names.contains(&service), "{names:?}");
        }
        let pool = learn(&mut reflection, "undertone.v1.Control").await;
        let me = call(&channel, &pool, &researcher, "WhoAmI", json!({})).await;
        assert_eq!(me["name"], "Person0");
        let new = NewJob { title: "by reflection".to_owned(), spec: Spec::DpSgd(world.spec(1)) };
        let ask = json!({ "consortium": world.consortium, "job": serde_json::to_value(&new).unwrap() });
        let job = call(&channel, &pool, &researcher, "ProposeJob", ask).await;
        assert_eq!((&job["title"], &job["state"]), (&json!("by reflection"), &json!("proposed")));
        let read = call(&channel, &pool, &researcher, "GetJob", json!({ "job": job["id"] })).await;
        assert_eq!(read["document"]["spec"]["spec"]["participants"].as_array().map(Vec::len), Some(2));
    }

    async fn reflection_of_v1alpha_describes_the_services(app: &TestApp) {
        use v1alpha::server_reflection_client::ServerReflectionClient;
        use v1alpha::server_reflection_request::MessageRequest;
        use v1alpha::server_reflection_response::MessageResponse;

        let mut client = ServerReflectionClient::new(serve(&app.ctx).await);
        let mut ask = async |request: MessageRequest| {
            let request = v1alpha::ServerReflectionRequest { host: String::new(), message_request: Some(request) };
            let mut answers = client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
            answers.message().await.unwrap().unwrap().message_response.unwrap()
        };
        let MessageResponse::ListServicesResponse(services) = ask(MessageRequest::ListServices(String::new())).await
        else { panic!("no list") };
        let names: Vec<&str> = services.service.iter().map(|service| service.name.as_str()).collect();
        for service in ["undertone.v1.Control", "undertone.v1.WorkerGateway", "grpc.health.v1.Health"] {
            assert!(names.contains(&service), "{names:?}");
        }
        let symbol = MessageRequest::FileContainingSymbol("undertone.v1.Control".to_owned());
        let MessageResponse::FileDescriptorResponse(found) = ask(symbol).await else { panic!("no descriptors") };
        let file = prost_types::FileDescriptorProto::decode(found.file_descriptor_proto[0].as_slice()).unwrap();
        assert!(file.service.iter().any(|service| service.name() == "Control"));
    }

    async fn health_tells_that_both_services_are_there(app: &TestApp) {
        let mut health = HealthClient::new(serve(&app.ctx).await);
        for service in ["undertone.v1.Control", "undertone.v1.WorkerGateway", ""] {
            let answer = health.check(HealthCheckRequest { service: service.to_owned() }).await.unwrap().into_inner();
            assert_eq!(answer.status, 1, "{service} serves");
        }
        health.check(HealthCheckRequest { service: "undertone.v1.Nothing".to_owned() }).await.unwrap_err();
    }
}
