#pragma once
/// Which redis server, as main.cf says it: destdb_redis_server, _user, _password, _database, _timeout.
///
/// Use:     PEN_TRY_ASSIGN(auto options, redis::client_options(settings));  redis::Client client(loop, options, …);
/// Errors:  bad_server (what is wrong with the word), errno of a password file.
#include <string>
#include <string_view>

#include "lib/config/settings.h"
#include "lib/redis/client.h"

namespace pen::redis {

/// "inet:host:port", "host:port", "host" (port 6379), "unix:/path"; an IPv6 address stands in [ ].
Result<Server> parse_server(std::string_view text);
/// A password that starts with / is a file whose first line is the password; read here.
Result<ClientOptions> client_options(const config::Settings& settings);

}  // namespace pen::redis
