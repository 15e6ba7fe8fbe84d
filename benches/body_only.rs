//! A webhook that only reads the body: how fast zonewise could answer if deciding cost nothing.
//!
//! axum behind axum-server and rustls, with nothing of zonewise in it. benches/run.sh starts it.

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::post;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};

const ANSWER: &str = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"84ee4ac0-3d0e-4ddd-a2b7-e4c2b3d2ac0b","allowed":true}}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Ok([address, certificate, key]) = <[String; 3]>::try_from(arguments) else {
        // As it is run by `cargo bench`: there is nothing to time in here.
        println!("body_only ADDRESS CERTIFICATE KEY serves; benches/run.sh measures it");
        return Ok(());
    };
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| "there is a crypto provider already")?;
    let tls = RustlsConfig::from_pem_file(certificate, key).await?;
    let app = Router::new().route("/mutate", post(read_body));
    axum_server::bind(address.parse::<SocketAddr>()?)
        .acceptor(RustlsAcceptor::new(tls).acceptor(NoDelayAcceptor::new()))
        .serve(app.into_make_service())
        .await?;
    Ok(())
}

async fn read_body(body: Bytes) -> impl IntoResponse {
    std::hint::black_box(body);
    ([(CONTENT_TYPE, "application/json")], ANSWER)
}
