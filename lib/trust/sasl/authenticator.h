#pragma once
/// Decides a client's AUTH: Dovecot does (dovecot_service.h), a file of tokens (token_service.h), or a test.
///
/// Use:     auto exchange = authenticator.begin();
///          Answer a = co_await exchange->start(request, until);
///          while (a.kind == Answer::Kind::challenge) {
///            … ask the client …
///            a = co_await exchange->respond(base64, until);
///          }
///          Destroying an exchange that has not ended cancels it.
/// Errors:  none: a failure is Answer::Kind::temporary, with a text for the log.
/// Thread:  the loop's. The authenticator must outlive its exchanges.
#include <memory>
#include <string>
#include <vector>

#include "lib/base/async/loop.h"
#include "lib/trust/sasl/dovecot.h"
#include "lib/trust/sasl/token_file.h"

namespace pen::sasl {

struct Answer {
  enum class Kind : std::uint8_t { ok, failed, temporary, challenge } kind = Kind::temporary;
  std::string text;  // challenge: base 64; failed, temporary: the reason, may be empty
  std::string user;  // when ok; when failed, if it is known
  /// When ok: the senders that the login may use; nullptr: what it may use is decided by others.
  std::shared_ptr<const Senders> senders = nullptr;
};

class Authenticator {
 public:
  using Request = dovecot::Request;
  class Exchange {
   public:
    virtual ~Exchange() = default;
    virtual async::Task<Answer> start(Request request, async::Until until) = 0;
    virtual async::Task<Answer> respond(std::string base64, async::Until until) = 0;
  };
  virtual ~Authenticator() = default;
  /// The mechanisms that the service offers, or offered when it last answered; empty: not known yet.
  virtual const std::vector<Mechanism>& mechanisms() const = 0;
  /// Returns when mechanisms() is known, or after the first attempt to ask has failed.
  virtual async::Task<void> settled(async::Until until) = 0;
  virtual std::unique_ptr<Exchange> begin() = 0;
};

}  // namespace pen::sasl
