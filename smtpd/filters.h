#pragma once
/// The filters (milters) of one session, between SMTP and lib/receive/milter: which filters a client gets, the values
/// of their macros, and what their verdicts mean for the client and in the log.
///
/// Use:     auto filters = SessionFilters::open(server, policy, client);       // nullptr: none for this client
///          if (auto no = co_await filters->connect()) …                        // a Response refuses
///          filters->begin(message); … mail(), rcpt(), data(), content() … filters->end();
///          co_await filters->quit();
/// Thread:  the loop's. Server, policy and client outlive it; the message from begin() to end().
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/receive/milter/chain.h"
#include "smtpd/client.h"
#include "smtpd/response.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class SessionFilters final : private milter::MacroSource {
 public:
  /// Looks the client up in smtpd_milter_maps. A table or a value that cannot be read gives filters that refuse.
  static async::Task<std::unique_ptr<SessionFilters>> open(Server& server, const Policy& policy,
                                                           const ClientFacts& client);

  /// The client connects. A refusal is for the greeting: 421, or 5xx.
  async::Task<std::optional<Response>> connect();
  /// HELO and EHLO get their reply whatever the filters say, unless that is 421; the refusal is for what follows.
  async::Task<std::optional<Response>> helo();
  /// What the filters said of the whole session, for commands that they do not see; nullptr: nothing.
  const Response* refused_session() const { return refused_ ? &*refused_ : nullptr; }
  /// A command that is not SMTP. A refusal replaces ours.
  async::Task<std::optional<Response>> unknown(std::string_view line);

  void begin(intake::Message& message) { message_ = &message; }
  /// args: what follows MAIL or RCPT.
  async::Task<std::optional<Response>> mail(std::string_view args);
  async::Task<std::optional<Response>> rcpt(std::string recipient, std::string_view args);
  /// A recipient that our own checks refuse, with their reply.
  async::Task<void> refused_rcpt(std::string recipient, std::string_view args, std::string_view reply);
  async::Task<std::optional<Response>> data();
  /// The end of the content. The message is held, filtered and changed.
  struct Judged {
    std::optional<Response> refusal;
    intake::Commit commit{intake::Outcome::ok, {}};  // of content that could not be held or changed
  };
  async::Task<Judged> content(async::Until until);
  /// The transaction is over.
  void end();
  async::Task<void> quit() { return chain_.quit(); }

 private:
  SessionFilters(Server& server, const Policy& policy, const ClientFacts& client, const milter::Filters& filters);

  std::string macro(std::string_view name) const override;
  std::string message_macro(std::string_view name) const;
  std::string tls_macro(std::string_view name) const;
  /// Logs the verdict and makes it the client's reply; keeps the effects for the commit.
  std::optional<Response> settle(const milter::Verdict& verdict, const char* where, std::string_view recipient = {});
  void log_line(std::string_view verb, const char* where, std::string_view text, std::string_view recipient) const;
  /// Finds transport and next hop for the macros {mail_…} and {rcpt_…}, if a list has them.
  async::Task<resolve::Route> route(std::string address) const;

  Server& server_;
  const Policy& policy_;
  const ClientFacts& client_;
  intake::Message* message_ = nullptr;
  struct Address {
    std::string address;
    resolve::Route route;
  };
  Address sender_, recipient_;
  std::optional<Response> refused_;
  const char* protocol_ = "SMTP";  // for the log: HELO and EHLO are logged with what was spoken before
  bool routes_wanted_ = false;
  milter::Chain chain_;
};

}  // namespace pen::smtpd
