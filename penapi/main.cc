/// penapi: figures, states and orders over HTTP. See man/penapi.8 and docs/api.md.
#include <fmt/format.h>
#include <sys/stat.h>

#include "lib/base/log.h"
#include "lib/suite/service/board.h"
#include "lib/suite/service/service.h"
#include "lib/suite/sessions/classes.h"
#include "penapi/server.h"

namespace {

using namespace pen;

/// What only root may be able to read, read while the rights are there.
struct Private {
  Result<api::Tokens> tokens = api::Tokens();
  Result<std::shared_ptr<const tls::Context>> tls = std::shared_ptr<const tls::Context>();
};

Result<std::shared_ptr<const tls::Context>> open_tls(const config::Settings& s) {
  if (s.penapi_tls_cert_file.empty()) return std::shared_ptr<const tls::Context>();
  tls::ContextOptions options;
  options.role = tls::Role::server;
  options.pairs = {{s.penapi_tls_cert_file, s.penapi_tls_key_file}};
  PEN_TRY_ASSIGN(options.protocols, tls::Protocols::parse(">=TLSv1.2"));
  return tls::Context::open(std::move(options));
}

Private read_private(const config::Config& config) {
  const auto& s = config.settings();
  Private out;
  if (!s.penapi_token_file.empty()) out.tokens = api::Tokens::read(s.penapi_token_file);
  out.tls = open_tls(s);
  return out;
}

Result<void> look(service::Context& context) {
  Private secrets = read_private(context.config());
  PEN_TRY(std::move(secrets.tokens));
  PEN_TRY(std::move(secrets.tls));
  return {};
}

/// Everybody who can reach an address of the network could read and order: only encrypted, and with a token.
Result<void> check_sockets(const std::vector<Fd>& sockets, bool tls, bool tokens) {
  for (const Fd& socket : sockets) {
    PEN_TRY_ASSIGN(const async::SocketAddress at, async::local_address(socket.get()));
    if (at.is_unix() || sessions::is_loopback(parse_ip(at.host)) || (tls && tokens)) continue;
    return fail(config::ConfigError::bad_value,
                fmt::format("{} is no loopback address: penapi serves it only with penapi_tls_cert_file and "
                            "penapi_token_file",
                            at.text()));
  }
  return {};
}

/// Master hands over its state and the pages of all services; they differ in size.
Result<void> sort_pages(std::vector<Fd> given, api::Server::Options& options) {
  for (Fd& fd : given) {
    struct stat facts{};
    if (::fstat(fd.get(), &facts) != 0) return fail_errno("a page of figures");
    if (facts.st_size == static_cast<off_t>(service::kBoardBytes)) {
      options.board = std::move(fd);
    } else {
      PEN_TRY_ASSIGN(auto reader, metrics::Reader::open(fd));
      options.pages.push_back(std::move(reader));
    }
  }
  return {};
}

Result<service::Hooks> start(service::Context& c, Private secrets) {
  PEN_TRY_ASSIGN(auto tokens, std::move(secrets.tokens));
  PEN_TRY_ASSIGN(auto tls, std::move(secrets.tls));
  PEN_TRY(check_sockets(c.listeners(), tls != nullptr, !tokens.empty()));
  api::Server::Options options;
  options.tokens = std::move(tokens);
  options.tls = std::move(tls);
  options.draining = &c.draining();
  PEN_TRY(sort_pages(c.take_pages(), options));
  auto server = std::make_shared<api::Server>(c.loop(), c.config(), std::move(options));
  c.serve([server](async::Listener::Accepted a) { return server->serve(std::move(a.stream)); },
          static_cast<std::size_t>(c.settings().penapi_connection_limit));
  return service::Hooks{};
}

}  // namespace

int main(int argc, char** argv) {
  Private secrets;
  return pen::service::run(argc, argv,
                           {.name = "penapi",
                            .summary = "figures, states and orders over HTTP",
                            .look = look,
                            .with_privileges = [&secrets](const config::Config& c) { secrets = read_private(c); }},
                           [&secrets](service::Context& c) { return start(c, std::move(secrets)); });
}
