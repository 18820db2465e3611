#pragma once
/// What a client and a server say before the first message: greeting, EHLO, STARTTLS, AUTH. No I/O.
///
/// Use:     Handshake handshake(settings, peer, ending);
///          handshake.on_reply(reply);                    // to what awaiting() names, until done()
///          if (auto words = handshake.take_words()) write words->text;
///          if (handshake.tls_due()) { shake hands; handshake.tls_started() or ending.leave(…); }
/// Ends:    with done(), then offers() and refusal() are for the messages; or with ending.over.
/// Order:   one command at a time: EHLO (LHLO, or HELO where EHLO is refused), STARTTLS, EHLO again, AUTH.
/// Owns:    nothing of what it is given: settings, peer and ending outlive it.
/// Source:  RFC 5321 section 3.1, RFC 2033, RFC 3207, RFC 4954, RFC 8689; docs/tls-client.md.
#include <memory>
#include <optional>
#include <string>

#include "lib/meaning/smtp/settings.h"
#include "smtp/ending.h"
#include "smtp/wire.h"

namespace pen::sasl {
class ClientExchange;
}

namespace pen::smtp {

class Handshake {
 public:
  Handshake(const Settings& settings, const Peer& peer, Ending& ending);
  ~Handshake();

  struct Words {
    std::string text;       // a line
    bool response = false;  // to a challenge of AUTH; else a command
  };
  /// What is to be said now; each once.
  std::optional<Words> take_words();
  /// What the next reply answers; nullopt: none is awaited.
  std::optional<Step> awaiting() const { return awaiting_; }
  /// To what awaiting() names; not malformed.
  void on_reply(const mail::Reply& reply);

  /// The peer has agreed to STARTTLS.
  bool tls_due() const { return phase_ == Phase::tls; }
  void tls_started();
  /// A line came in clear text after the peer agreed (RFC 3207 section 5): an attacker may have sent it, to be taken
  /// for the peer's after the handshake.
  void clear_text_in_tls() { tls_not_to_be_had("sent clear text after it agreed to start TLS", nullptr); }

  bool done() const { return phase_ == Phase::done; }
  /// What the peer has said that it can do, last of all.
  const Offers& offers() const { return offers_; }
  /// The result of every job, because the peer does not want us; nullopt: it does.
  const std::optional<mail::DeliveryStatus>& refusal() const { return refusal_; }
  bool encrypted() const { return encrypted_ || settings_.wrapped; }
  /// By STARTTLS, which could have been left out.
  bool optional_tls() const { return encrypted_ && settings_.starttls == StartTls::if_offered && !settings_.login; }

 private:
  enum class Phase : std::uint8_t { greeting, hello, tls, done };

  void say(std::string text, Step step, bool response = false);
  void hello(Step step);
  void on_greeting(const mail::Reply& reply);
  void on_hello_reply(const mail::Reply& reply, Step step);
  void refused(const mail::Reply& reply);
  void unexpected(const mail::Reply& reply, Step step);
  void go_on_to_login();

  // STARTTLS.
  bool tls_comes_first();
  void on_starttls_reply(const mail::Reply& reply);
  void tls_not_to_be_had(std::string why, const mail::Reply* reply);
  void requiretls_not_offered();

  // AUTH (handshake_auth.cc).
  bool login_comes_first();
  void on_auth_reply(const mail::Reply& reply);
  void login_failed(const mail::Reply* reply, std::string_view why);

  const Settings& settings_;
  const Peer& peer_;
  Ending& ending_;
  Phase phase_ = Phase::greeting;
  std::optional<Step> awaiting_ = Step::greeting;
  Words words_;
  Offers offers_;
  bool encrypted_ = false;
  std::optional<mail::DeliveryStatus> refusal_;
  std::unique_ptr<sasl::ClientExchange> exchange_;  // while AUTH is in progress
  unsigned challenges_ = 0;
};

}  // namespace pen::smtp
