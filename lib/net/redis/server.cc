#include "lib/net/redis/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/net/tls/context.h"

namespace pen::redis {

namespace {

constexpr std::uint16_t kDefaultPort = 6379;
constexpr std::size_t kMaxPassword = 512;

Result<std::string> read_password(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno("destdb_redis_password: " + path);
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("destdb_redis_password: " + path);
  if (!S_ISREG(st.st_mode)) return fail(RedisError::bad_server, "destdb_redis_password: " + path + " is not a file");
  if ((st.st_mode & S_IROTH) != 0)
    return fail(RedisError::bad_server, "destdb_redis_password: " + path + " can be read by everyone: chmod o-r");
  char text[kMaxPassword + 1];
  const ssize_t n = ::read(fd.get(), text, sizeof text);
  if (n < 0) return fail_errno("destdb_redis_password: " + path);
  std::string_view line(text, static_cast<std::size_t>(n));
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.empty() || line.size() > kMaxPassword)
    return fail(RedisError::bad_server, "destdb_redis_password: the first line of " + path + " is empty or too long");
  return std::string(line);
}

/// destdb_redis_tls. A session is not resumed: a connection lives for days.
Result<void> add_tls(const config::Settings& s, ClientOptions& out) {
  if (!out.server.path.empty())
    return fail(RedisError::bad_server,
                "destdb_redis_tls: a connection to a Unix socket is not encrypted; name the "
                "server as inet:host:port, or leave destdb_redis_tls out");
  out.tls_name = s.destdb_redis_tls_name.empty() ? out.server.host : s.destdb_redis_tls_name;
  if (unsigned char raw[16];
      ::inet_pton(AF_INET, out.tls_name.c_str(), raw) == 1 || ::inet_pton(AF_INET6, out.tls_name.c_str(), raw) == 1)
    return fail(RedisError::bad_server, "destdb_redis_tls: " + out.tls_name +
                                            " is an address; set destdb_redis_tls_name to the name that is in the "
                                            "server's certificate");
  tls::ContextOptions options;
  options.role = tls::Role::client;
  options.ca_file = s.destdb_redis_tls_CAfile;
  if (!s.destdb_redis_tls_cert_file.empty())
    options.pairs = {{.cert_file = s.destdb_redis_tls_cert_file, .key_file = s.destdb_redis_tls_key_file}};
  auto context = tls::Context::open(std::move(options));
  if (!context) return std::unexpected(std::move(context).error().within("destdb_redis_tls"));
  out.tls = *std::move(context);
  return {};
}

}  // namespace

Result<Server> parse_server(std::string_view text) {
  auto server = Server::parse(text, {.default_port = kDefaultPort, .bare = helper::ServerAddress::Bare::host});
  if (server) return *std::move(server);
  return fail(RedisError::bad_server, "destdb_redis_server: \"" + printable(text, 100) + "\": " + server.error());
}

Result<ClientOptions> client_options(const config::Settings& s) {
  ClientOptions out;
  PEN_TRY_ASSIGN(out.server, parse_server(s.destdb_redis_server));
  out.timeout = s.destdb_redis_timeout;
  if (out.timeout < milliseconds(10)) return fail(RedisError::bad_server, "destdb_redis_timeout is below 10ms");
  out.user = s.destdb_redis_user;
  out.password = s.destdb_redis_password;
  out.database = s.destdb_redis_database;
  if (out.password.starts_with('/')) {
    PEN_TRY_ASSIGN(out.password, read_password(s.destdb_redis_password));
  }
  if (!out.user.empty() && out.password.empty())
    return fail(RedisError::bad_server, "destdb_redis_user is set without destdb_redis_password");
  if (s.destdb_redis_tls) PEN_TRY(add_tls(s, out));
  return out;
}

}  // namespace pen::redis
