#pragma once
/// TLS on a timed_socket connection, for modules whose client library has none.
///
/// Use:     auto tls = TimedTls::start(fd, {.ca_file = …, .name = "redis.example.com"}, deadline);
///          tls->send(request, deadline);  tls->receive(buffer, deadline);
/// Rules:   the certificate must be trusted by ca_file and be for `name`, a DNS name (RFC 9525: no common name, a
///          wildcard is one label). TLS 1.2 and above.
/// Owns:    its own OpenSSL context; the descriptor stays the caller's and must outlive it.
/// Errors:  unreadable; with ETIMEDOUT after the deadline; otherwise with what OpenSSL says.
/// Thread:  any; one at a time for each connection.
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/map/map.h"

namespace pen::map::database {

struct TlsFiles {
  std::string ca_file;              // PEM
  std::string cert_file, key_file;  // of this host; empty: none
  std::string name;                 // what the server's certificate must be for
};

class TimedTls {
 public:
  static Result<std::unique_ptr<TimedTls>> start(int fd, const TlsFiles& files, SteadyTime deadline);
  ~TimedTls();
  TimedTls(const TimedTls&) = delete;
  TimedTls& operator=(const TimedTls&) = delete;

  Result<void> send(std::string_view bytes, SteadyTime deadline);
  /// Waits for at least one byte. Returns how many came; 0: the server ended the connection.
  Result<std::size_t> receive(std::span<char> buffer, SteadyTime deadline);

  // For callers that do not wait.
  enum class Wants { nothing, read, write };
  /// nothing: all is sent; else the same bytes are to be given again, when the descriptor is ready for that.
  Result<Wants> send_now(std::string_view bytes);
  struct Received {
    std::size_t size = 0;          // 0, and nothing is wanted: the server ended the connection
    Wants wants = Wants::nothing;  // if nothing came
  };
  Result<Received> receive_now(std::span<char> buffer);

 private:
  struct Impl;
  explicit TimedTls(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pen::map::database
