#pragma once
/// The redis server configured in main.cf: destdb_redis_server, _user, _password, _database, _timeout, and
/// destdb_redis_tls with its files.
///
/// Use:     PEN_TRY_ASSIGN(auto options, redis::client_options(settings));  redis::Client client(loop, options, …);
/// Errors:  bad_server (with the malformed word), errno of a password file, TlsError of a certificate.
#include <string>
#include <string_view>

#include "lib/config/settings.h"
#include "lib/net/redis/client.h"

namespace pen::redis {

/// "inet:host:port", "host:port", "host" (port 6379), "unix:/path"; an IPv6 address must be in [ ].
Result<Server> parse_server(std::string_view text);
/// A password that starts with / is the path of a file with the password in its first line; it is read here, as are
/// the certificates of destdb_redis_tls.
Result<ClientOptions> client_options(const config::Settings& settings);

}  // namespace pen::redis
