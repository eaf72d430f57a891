//! A service with a configuration file, which can be checked, read again and stopped. It greets each peer.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use whimbrel::{Config, Endpoint, TransportConfig};
use whimbrel_service::prometheus_client::metrics::counter::Counter;
use whimbrel_service::{
    Command, ListenOptions, ListenSettings, Listening, Service, ServiceSettings, read_config,
};

/// The file: a setting of this program, and sections as in docs/whimbrel.toml.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    greeting: String,
    listen: ListenSettings,
    transport: TransportConfig,
    service: ServiceSettings,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match &arguments[..] {
        [verb, file] if verb == "check" => check(Path::new(file)),
        [file] => serve(Path::new(file)).await,
        _ => Err("write `greeter FILE` or `greeter check FILE`".into()),
    };
    if let Err(error) = ended {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn check(file: &Path) -> Result<(), Box<dyn Error>> {
    read_config::<Settings>(file)?;
    println!("{} has no mistake", file.display());
    Ok(())
}

async fn serve(file: &Path) -> Result<(), Box<dyn Error>> {
    let Settings { greeting, listen, transport, service } = read_config(file)?;
    let mut options = ListenOptions::new(Config::default().transport(transport).listen(Some(listen.config)));
    (options.address, options.key, options.psk) = (listen.address, listen.key, listen.psk);
    let Listening { endpoint, url } = options.listen(|notice| eprintln!("{notice}")).await?;

    let options = service.options("greeter").version(env!("CARGO_PKG_VERSION")).reload_on_hangup();
    let mut service = Service::start(options, &endpoint, || serde_json::json!({})).await?;
    println!("listening {url}");
    let greetings = Counter::<u64>::default();
    service.metrics().register("greeter_greetings", "Greetings sent", greetings.clone());
    let (greeting, current) = watch::channel(greeting);
    tokio::spawn(greet(endpoint.clone(), current, greetings));
    loop {
        match service.next().await {
            Command::Reload(asked) => {
                service.reloading();
                match read_config::<Settings>(file) {
                    Ok(new) => {
                        let ended = endpoint.set_allow(new.listen.config.allow);
                        greeting.send_replace(new.greeting);
                        asked.done(format!("the file was read again; sessions ended: {ended}"));
                    }
                    // A file with a mistake changes nothing.
                    Err(error) => asked.failed(error.to_string()),
                }
                service.reloaded();
            }
            Command::Stop(_) => break,
            _ => {}
        }
    }
    service.finish(0, "the service was stopped", Duration::from_secs(5)).await?;
    Ok(())
}

async fn greet(endpoint: Endpoint, greeting: watch::Receiver<String>, greetings: Counter) {
    while let Some(mocket) = endpoint.accept().await {
        let (greeting, greetings) = (greeting.borrow().clone(), greetings.clone());
        tokio::spawn(async move {
            if mocket.send(greeting).await.is_ok() {
                greetings.inc();
                mocket.closed().await;
            }
        });
    }
}
