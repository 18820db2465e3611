/// cyrus: decides logins of smtpd's clients, with the library Cyrus SASL or by a table of users. See man/cyrus.8.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "cyrus/server.h"
#include "cyrus/table_login.h"
#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/config/cyrus_sasl.h"
#include "lib/suite/ipc/channel.h"
#include "lib/suite/ipc/logins.h"
#include "lib/suite/service/conversations.h"
#include "lib/suite/service/service.h"

namespace {

using namespace pen;
using cyrus::Application;

constexpr std::size_t kMostOptions = 1 << 20;  // bytes

/// nullopt: there is no such file, or it cannot be read, which is logged.
std::optional<std::string> read_options(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    if (errno != ENOENT && errno != ENOTDIR) log::warning("{}: {}", file, std::strerror(errno));
    return std::nullopt;
  }
  std::string text(kMostOptions, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

/// With the rights of root: passwords of databases may stand in the options.
std::vector<Application> read_applications(const config::Config& config) {
  std::vector<Application> out;
  for (const std::string& name : config::cyrus_applications(config)) {
    Application application{.name = name};
    const auto files = config::cyrus_option_files(config, name);
    bool found = false;
    for (const std::string& file : files) {
      const auto text = read_options(file);
      if (!text) continue;
      found = true;
      if (auto options = config::CyrusOptions::parse(*text))
        application.options = *std::move(options);
      else
        application.fault = file + ": " + options.error().message();
      break;
    }
    if (!found) log::warning("{}.conf is in no directory of cyrus_sasl_config_path: the library's defaults hold", name);
    out.push_back(std::move(application));
  }
  return out;
}

/// What would fail at the first login is logged at the start: mostly rights are missing.
void look_for_obstacles(const Application& application) {
  const auto needs = config::cyrus_needs(application.options);
  const auto reach = [&](const std::string& usual, const char* option, int how) {
    const char* place = cyrus::place_of(option, application);
    const std::string path = place == nullptr ? usual : place;
    return std::pair{path, ::faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0 ? 0 : errno};
  };
  if (needs.saslauthd) {
    const auto [path, error] = reach(*needs.saslauthd, "saslauthd_path", W_OK);
    if (error != 0)
      log::warning("the socket of saslauthd, {}: {}: clients cannot log in with PLAIN or LOGIN{}", path,
                   std::strerror(error), error == EACCES ? "; it must be open to the group sasl" : "");
  }
  if (needs.sasldb) {
    const auto [path, error] = reach(*needs.sasldb, "sasldb_path", R_OK);
    if (error != 0 && (error != ENOENT || needs.sasldb_named))
      log::warning("sasldb, {}: {}: who is in it cannot log in{}", path, std::strerror(error),
                   error == EACCES ? "; it must be open to the group sasl" : "");
  }
}

/// Those that smtpd_sasl_type = table names. What is wrong with one is logged.
std::vector<Application> open_tables(const config::Config& config) {
  std::vector<Application> out;
  for (const std::string& table : config::login_tables(config)) {
    auto users = cyrus::Users::open(table, config.settings().default_database_type);
    if (!users) {
      log::warning("smtpd_sasl_path: {}: nobody can log in", users.error().message());
      continue;
    }
    for (const std::string& problem : (*users)->problems()) log::warning("smtpd_sasl_path: {}", problem);
    out.push_back({.name = table, .mechanisms = cyrus::TableLogin::mechanisms(), .users = *std::move(users)});
  }
  return out;
}

/// Tables that cannot be used are logged, and end nothing.
Result<void> look(service::Context& context) {
  (void)open_tables(context.config());
  return {};
}

/// The server tells itself what a client does wrong.
async::Task<Result<void>> session(std::shared_ptr<cyrus::Server> server, async::Stream stream) {
  co_await cyrus::Server::serve(std::move(server), std::move(stream));
  co_return Result<void>();
}

Result<service::Hooks> start(service::Context& context, const cyrus::Library& library) {
  const config::Settings& s = context.settings();
  for (const Application& application : library.applications()) {
    if (!application.fault.empty())
      log::warning("application {}: nobody can log in: {}", printable(application.name, 60), application.fault);
    else
      look_for_obstacles(application);
  }
  auto server = std::make_shared<cyrus::Server>(
      context.loop(), library,
      cyrus::Server::Options{.threads = static_cast<std::size_t>(s.cyrus_sasl_thread_limit),
                             .step_timeout = s.cyrus_sasl_step_timeout},
      open_tables(context.config()));
  server->on_stuck = [] { log::fatal("threads that do not come back: the next process has new ones"); };
  service::serve_conversations(context, {{.name = ipc::logins::kName, .serve = [server](ipc::Opening opening) {
                                            return session(server, ipc::take_stream(std::move(opening)));
                                          }}});
  return service::Hooks{.status = [server] { return server->status(); }};
}

}  // namespace

int main(int argc, char** argv) {
  std::unique_ptr<pen::cyrus::Library> library;  // plugins are loaded before files are closed to the program
  const auto with_privileges = [&library](const pen::config::Config& config) {
    library = pen::cyrus::Library::open(read_applications(config));
    for (const std::string& line : library->take_news()) pen::log::warning("{}", line);
  };
  return pen::service::run(
      argc, argv, {.name = "cyrus", .summary = "decides logins", .look = look, .with_privileges = with_privileges},
      [&library](pen::service::Context& context) { return start(context, *library); });
}
