#pragma once
/// What SPF, DKIM and DMARC say of one message, for the transaction, the restriction lists and policy servers.
///
/// Use:     auto checked = std::make_shared<Authentication>(server, policy, client, sender, Scope::all);   // at MAIL
///          checked->begin();                                        // SPF is asked while the client goes on
///          const spf::Outcome& spf = co_await checked->spf();       // from MAIL on
///          auto commit = co_await checked->content(message, until); // at the end of the data: all the rest
///          checked->dmarc(), checked->line()
/// Order:   the content is checked as it is stored, before filters see it; its forged results go, and ours come in.
///          What is to be sealed (ARC) is told to the message, with the results.
/// Bounds:  kPatience for SPF, and for the keys and policies of a message; Server::kQuestions questions of all messages
///          at once. Of one message spf::Allowance, kMostKeys, and what dmarc::check() asks at most. Signatures:
///          dkim::Verifier. A header beyond kMaxHeader is refused (too_large).
/// Thread:  the loop's; digests of large content and keys work in the pool. Server, policy and client outlive it, or it
///          is destroyed first.
/// Source:  RFC 7208, 6376, 9989, 8601; docs/authentication-results.md.
#include <optional>
#include <string>
#include <vector>

#include "lib/base/async/sync.h"
#include "lib/receive/intake/intake.h"
#include "lib/suite/ipc/dmarc_report.h"
#include "lib/trust/dkim/verify.h"
#include "lib/trust/dmarc/check.h"
#include "lib/trust/spf/check.h"
#include "smtpd/client.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class Authentication {
 public:
  enum class Scope : std::uint8_t {
    all,
    forged_only,  // results in our name are taken out: of a client that has logged in
  };
  static constexpr seconds kPatience{20};  // RFC 7208 section 4.6.4 asks for at least that
  static constexpr std::size_t kMaxHeader = 1U << 20;
  // As many as signatures are looked at, and those of ten sealers: DNS says nothing of more, and the chain is neither
  // good nor bad.
  static constexpr std::size_t kMostKeys = 21;

  /// sender: "" for the null sender.
  Authentication(Server& server, const Policy& policy, const ClientFacts& client, std::string sender, Scope scope);

  /// Whether SPF is asked.
  bool asks_spf() const { return spf_asked_; }
  bool asks_dkim() const;
  bool asks_dmarc() const;
  void begin();
  /// Waits for SPF of the sender, or of the HELO name for the null sender. Only if asks_spf().
  async::Task<const spf::Outcome*> spf();
  /// The name that a refusal by SPF concerns.
  bool about_helo() const { return sender_.empty(); }
  const std::string& sender() const { return sender_; }

  /// Checks the content and puts the results into it. Outcomes: those of Message::show_content() and add_results().
  [[gnu::noinline]] async::Task<intake::Commit> content(intake::Message& message, async::Until until);
  /// nullptr: the content was not checked, or asks_dmarc() says no.
  const dmarc::Outcome* dmarc() const { return dmarc_ ? &*dmarc_ : nullptr; }
  /// For an aggregate report: nullopt: the author's domain has no policy, or it could not be found out. applied: what
  /// was done with the message.
  std::optional<ipc::dmarc_report::Result> report(dmarc::Policy applied) const;
  /// The results on one line, for the log; empty: none yet.
  const std::string& line() const { return line_; }
  /// Words for policy servers; empty: not known.
  std::string_view spf_word() const;
  std::string_view dkim_word() const;
  std::string_view dmarc_word() const;

 private:
  struct Content;
  static async::Task<void> run_spf(Authentication* self, spf::Question question, spf::Outcome* out);
  static async::Task<void> ask_key(Authentication* self, std::string name, dkim::KeyAnswer* out, async::Until until);
  /// One question, when it is its turn.
  async::Task<net::DnsAnswer> ask(std::string name, net::RecordType type, async::Until until);
  [[gnu::noinline]] async::Task<Result<std::shared_ptr<Content>>> read_header(intake::Message& message);
  [[gnu::noinline]] async::Task<Result<void>> verify(std::shared_ptr<Content> content, async::Until until);
  [[gnu::noinline]] async::Task<void> judge_author(const Content& content, async::Until until);
  /// Whether a sealer that is trusted saw DMARC pass, and the message has come from there unchanged.
  bool vouched_for(const Content& content, std::string_view author) const;
  std::string results(const Content& content);
  /// Whether the message is one of those that are sealed.
  Result<bool> to_be_sealed(intake::Message& message) const;
  void seal(intake::Message& message, const Content& content, std::string_view results) const;

  Server& server_;
  const Policy& policy_;
  const ClientFacts& client_;
  std::string sender_, helo_;
  Scope scope_;
  bool spf_asked_ = false, helo_asked_ = false;
  spf::Records records_;
  spf::Allowance spf_allowance_;  // of both
  spf::Outcome mail_spf_, helo_spf_;
  std::size_t waiting_ = 0;  // for SPF
  async::Event spf_done_;
  std::vector<dkim::Outcome> dkim_;
  bool dkim_done_ = false;
  std::optional<dmarc::Outcome> dmarc_;
  std::string line_;
  async::Gate gate_;  // declared last: its tasks use the rest
};

}  // namespace pen::smtpd
