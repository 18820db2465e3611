#pragma once
/// Looks up the passwords for AUTH at peers.
///
/// Use:     auto logins = Logins::open(settings, lmtp, loop);        // once; shared
///          auto login = co_await logins->find(destination.credentials, verified);   // before connecting
/// Secrets: only this module reads them for use; they are sent to no other program and never logged.
/// Errors:  a table cannot be read, or its entry has gone: no connection is made, and its mail waits.
/// Thread:  the loop's.
#include <memory>
#include <string>

#include "lib/config/settings.h"
#include "lib/map/ask.h"
#include "smtp/login.h"

namespace pen::smtp {

class Logins {
 public:
  /// nullptr: AUTH is off. Errors: a bad option, a table that cannot be opened.
  static Result<std::shared_ptr<Logins>> open(const config::Settings& s, bool lmtp, async::Loop& loop);
  /// key: Destination::credentials. verified: the peer's certificate is checked before mail is sent.
  async::Task<Result<Login>> find(std::string key, bool verified);

 private:
  explicit Logins(async::Loop& loop) : tables_(loop) {}
  map::MapList maps_;
  std::string delimiter_;
  Login usual_;
  sasl::SecurityOptions verified_;
  map::Asker tables_;
};

}  // namespace pen::smtp
