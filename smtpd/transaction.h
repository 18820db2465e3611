#pragma once
/// One mail transaction, from MAIL to the end of its content: the envelope, the content, and the way into the queue
/// or to a proxy filter.
///
/// Use:     Transaction t(server, policy, client, options, mail, effects, local, number);   // MAIL was accepted
///          auto job = t.parse_rcpt(args, 0);  job->judge();  Response r = co_await t.take(*job);    // for each RCPT
///          if (auto no = co_await t.start_content("DATA", 0)) …
///          if (auto lost = co_await t.receive_data(stream, …); !lost) …
///          Response r = co_await t.finish();                   // the session destroys it then, whatever the response
/// Talks:   never by itself: each step returns the reply for the client. It reads only content from the stream.
/// Ends:    may be destroyed at any moment: unless finish() gave a good response, nobody has the message then.
/// Thread:  the loop's. Server, policy and client must outlive it.
#include <memory>
#include <optional>
#include <string>

#include "lib/base/async/sync.h"
#include "lib/mail/command.h"
#include "lib/receive/intake/intake.h"
#include "smtpd/checks.h"
#include "smtpd/filters.h"
#include "smtpd/proxy.h"
#include "smtpd/response.h"
#include "smtpd/returned_mail.h"
#include "smtpd/server.h"

namespace pen::smtpd {

class Transaction {
 public:
  /// options: the parameters that the session offers. local: the header is completed, here or behind the filter.
  /// number: Subject::transaction.
  Transaction(Server& server, const Policy& policy, const ClientFacts& client, const mail::CommandOptions& options,
              mail::MailCommand mail, intake::Effects effects, bool local, std::uint64_t number);
  ~Transaction();

  /// Reports the message to the session's filters; they outlive the transaction, or hear of its end. args: what follows
  /// MAIL. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> ask_filters(SessionFilters& filters, std::string_view args);

  /// What checks the message's origin. Before the first RCPT.
  void check_with(std::shared_ptr<Authentication> authentication) { authentication_ = std::move(authentication); }

  /// What the client says of how urgent the message is counts. Before the content.
  void may_say_priority(bool yes) { says_priority_ = yes; }

  /// The subject of the restriction lists.
  Subject subject();
  /// Empty: none yet.
  const std::string& queue_id() const { return message_.queue_id(); }
  std::size_t recipients() const { return message_.recipients(); }
  /// The first that was taken, as footers name it.
  std::optional<std::string> first_recipient() {
    const auto& taken = message_.envelope().recipients;
    return taken.empty() ? std::nullopt : std::optional(taken.front().address);
  }

  /// Whether RCPT commands that come together are judged together, because one may have to wait.
  bool judges_together() {
    return policy_.rcpt_may_wait && !(policy_.counts_recipients_of_notices && message_.envelope().sender.empty());
  }

  /// One RCPT command of a group.
  struct RcptJob {
    mail::RcptCommand rcpt;
    std::string refusal;  // known without any look-up
    std::optional<Checks> checks;
    Verdict verdict;
    std::string args;  // what follows RCPT, for filters
    bool done = false;
    async::Task<void> judge();
    /// Judges the job in a task of its own; sets `changed` at the end.
    static async::Task<void> judge_aside(RcptJob* job, async::Event* changed);
  };
  /// ahead: commands of the group before this one that have no reply yet.
  std::unique_ptr<RcptJob> parse_rcpt(std::string_view args, std::size_t ahead);
  /// Returns the response to a job that was judged.
  async::Task<Response> take(RcptJob& job);

  // transaction_content.cc
  /// Before the first byte: evaluates the data lists, opens the body, tells the filter. expected: bytes of content
  /// that will certainly come. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> start_content(const char* verb, std::uint64_t expected);
  /// Reads to the end of data. Errors: those of the stream; received() bytes have come.
  [[gnu::noinline]] async::Task<Result<void>> receive_data(async::Stream& stream, bool any_end_of_data);
  /// True: BDAT has come, and RCPT and DATA are out of order.
  bool in_chunks() const { return chunks_ != nullptr; }
  /// Called before a chunk. A response: the chunk must be skipped.
  [[gnu::noinline]] async::Task<std::optional<Response>> start_chunk(const mail::BdatCommand& chunk);
  [[gnu::noinline]] async::Task<Result<void>> receive_chunk(async::Stream& stream, std::uint64_t size);
  std::uint64_t received() { return message_.body()->content().received(); }
  /// Lines of the content that ended without CR.
  std::uint64_t bare_lf() const { return chunks_ ? chunks_->bare_lf() : bare_lf_; }
  /// After the last byte: evaluates the lists for the end of data, then commits the message or passes it to the filter.
  [[gnu::noinline]] async::Task<Response> finish();

 private:
  const config::Settings& settings() const { return policy_.settings; }
  /// Evaluates the lists of a stage for the message; keeps their other effects for the commit. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> ask(Checks::AtStage stage);
  void describe_client();
  void log_client();
  /// Moves the gathered part of the body to its place.
  [[gnu::noinline]] async::Task<void> move_content();
  [[gnu::noinline]] async::Task<Response> commit();
  [[gnu::noinline]] async::Task<Response> check_and_commit();
  void report_dmarc(const Response& response);
  static Response not_taken(const intake::Commit& commit);
  /// HOLD, BCC and such count for the whole message, as in Postfix, whatever becomes of the recipient; and a policy
  /// server says once what it found out: policyd-spf has no second Received-SPF for the next recipient.
  void keep_effects(intake::Effects of_refused);

  /// Reads mail that comes back to us; `out` stays empty for other mail. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> read_returned(std::unique_ptr<ReturnedMail>& out);
  /// Checks the content's origin, and does what the policy of its author asks. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> authenticate();
  /// The end of the content, for filters: holds, shows and changes it. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> filter_content();
  /// The recipient, for filters that hear of it. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<Response>> filter_recipient(RcptJob& job);
  /// Whether this client's mail is signed; a refusal if that is not known.
  std::optional<Response> decide_signing();
  Response not_queued(const intake::Commit& commit);

  // transaction_tenant.cc: each returns nullopt if there is no refusal.
  /// Before the content: whether the client may name the tenant in a field, which is taken out. So is that of the
  /// priority.
  [[gnu::noinline]] async::Task<std::optional<Response>> take_fields();
  /// After it, and after filters.
  [[gnu::noinline]] async::Task<std::optional<Response>> find_tenant();
  /// After that: how urgent it is.
  [[gnu::noinline]] async::Task<std::optional<Response>> find_priority();
  /// list_unsubscribe_check_maps, for the content as it will be queued.
  [[gnu::noinline]] async::Task<std::optional<Response>> check_unsubscribe();

  // transaction_proxy.cc
  bool proxied() const { return policy_.proxy.has_value(); }
  /// True: content goes to the filter as it comes.
  bool streams_to_proxy() const { return proxy_ != nullptr; }
  /// Connects to the filter and sends MAIL. size: bytes of content; nullopt: unknown. Returns nullopt if the filter
  /// took it.
  [[gnu::noinline]] async::Task<std::optional<mail::Reply>> open_proxy(std::optional<std::uint64_t> size);
  /// Passes RCPT on, after open_proxy() if needed.
  [[gnu::noinline]] async::Task<Response> proxy_rcpt(const mail::Recipient& recipient);
  /// Passes DATA on. nullopt: no refusal.
  [[gnu::noinline]] async::Task<std::optional<mail::Reply>> proxy_data();
  /// Passes the rest of the content, or all of it, to the filter; returns the filter's reply for the client.
  [[gnu::noinline]] async::Task<Response> finish_by_proxy();
  /// Sends what smtpd_proxy_options = speed_adjust has put off.
  [[gnu::noinline]] async::Task<std::optional<mail::Reply>> catch_up();
  /// Logs the filter's refusal and returns it as a response.
  Response refused_by_proxy(const mail::Reply& reply, const char* where);
  void log_proxy(std::string_view verb, const char* where, const mail::Reply& reply);

  Server& server_;
  const Policy& policy_;
  const ClientFacts& client_;
  intake::Message message_;
  mail::CommandOptions options_;
  bool smtputf8_;
  bool local_;
  std::uint64_t number_;   // Subject::transaction
  bool complete_ = false;  // the content has come
  bool signs_ = false;     // its mail is signed here
  bool tenant_field_counts_ = false;
  std::optional<std::int8_t> priority_given_;  // MT-PRIORITY, as far as it counts
  bool says_priority_ = false;
  bool tells_greylisting_ = false;             // the header has the field that does
  std::optional<std::uint64_t> announced_;     // SIZE
  std::size_t too_many_ = 0;                   // RCPT commands beyond the recipient limit
  std::uint64_t bare_lf_ = 0;                  // of DATA
  std::unique_ptr<mail::BdatScanner> chunks_;  // from the first BDAT on
  bool chunks_failed_ = false;
  std::shared_ptr<Authentication> authentication_;           // nullptr: its origin is not checked
  std::unique_ptr<ipc::dmarc_report::Result> dmarc_result_;  // to be reported when the message's end is known
  SessionFilters* filters_ = nullptr;                        // nullptr: none
  std::unique_ptr<Proxy> proxy_;                             // while the filter is spoken to
  bool proxy_failed_ = false;                                // the last proxy could not be opened
};

}  // namespace pen::smtpd
