#pragma once
/// Evaluates restriction lists for one client, one sender, one recipient.
///
/// Use:     Checks checks(policy, {loop, tables, names}, subject); Verdict v = co_await checks.recipient();
///          if (v.rejected()) … reply with v.reply …               // it has been logged already
/// Order:   as Postfix: with smtpd_delay_reject the client, HELO and sender lists are evaluated at RCPT. Then come
///          the relay and recipient lists, the check for listed recipients, and last the refusals deferred until a
///          permit.
/// Source:  Postfix SMTPD_ACCESS_README, postconf(5); texts and codes have its shape.
/// Thread:  the loop's. A Checks object is used for one evaluation; several may be in progress for one session.
#include <optional>
#include <string>
#include <type_traits>

#include "lib/intake/effects.h"
#include "lib/map/ask.h"
#include "lib/smtpd/policy.h"
#include "smtpd/access.h"
#include "smtpd/client.h"
#include "smtpd/names.h"

namespace pen::smtpd {

/// The subject of the lists. A pipelined batch keeps a copy for each command.
struct Subject {
  explicit Subject(const ClientFacts& facts) : client(&facts) {}
  const ClientFacts* client;
  std::optional<std::string> sender;     // of the transaction in progress
  std::optional<std::string> recipient;  // of this RCPT or VRFY
  std::size_t recipient_count = 0;       // accepted so far
  std::string queue_id;                  // for the log; empty: NOQUEUE
  const char* where = "RCPT";            // the command, for the log
};

/// What evaluations of one process share.
struct CheckTools {
  async::Loop& loop;
  map::Asker& tables;
  Names& names;
};

struct Verdict {
  std::string reply;                                  // without CRLF; empty: not refused
  mail::ErrorClass error = mail::ErrorClass::policy;  // of a reply that rejects
  intake::Effects effects;                            // other effects of the lists
  bool rejected() const { return !reply.empty(); }
};

class Checks {
 public:
  Checks(const Policy& policy, CheckTools tools, Subject subject)
      : policy_(policy), tools_(tools), subject_(std::move(subject)) {}

  async::Task<Verdict> client();     // at connect, without delay_reject
  async::Task<Verdict> helo();       // at HELO/EHLO, without delay_reject
  async::Task<Verdict> sender();     // at MAIL
  async::Task<Verdict> recipient();  // at RCPT and VRFY
  async::Task<Verdict> data();       // at DATA or the first BDAT
  async::Task<Verdict> end_of_data();
  /// One of these.
  using AtStage = async::Task<Verdict> (Checks::*)();

  Subject& subject() { return subject_; }

 private:
  enum class Answer : std::uint8_t { dunno, permit, reject };
  struct Name {  // how a reply names what it rejects
    std::string value;
    std::string_view kind;  // "Client host", "Recipient address", …
  };
  /// What a restriction's function returns: a task where the row says that it may have to wait.
  template <config::Waits waits>
  using AnswerOf = std::conditional_t<waits == config::Waits::never, Answer, async::Task<Answer>>;

  // One function for each row of restrictions.def, with the row's name. `about` is the subject of the list: replies
  // name it unless the restriction has a subject of its own.
#define PEN_RESTRICTION(name, argument, waits, relaying) \
  AnswerOf<config::Waits::waits> name(const Restriction& r, const Name& about);
#define PEN_RESTRICTION_ALIAS(name, restriction)
#define PEN_RESTRICTION_MISSING(name, argument)
#include "lib/config/restrictions.def"
  async::Task<Answer> restriction_class(const Restriction& r, const Name& about);
  Answer unsupported(const Restriction& r, const Name& about);
  Answer unknown(const Restriction& r, const Name& about);

  // checks.cc
  struct Handler;
  static const Handler& handler(Check check);
  [[gnu::noinline]] async::Task<Answer> run(const RestrictionList& list, Name name);
  [[gnu::noinline]] async::Task<Answer> run_lists_before_recipient(bool with_sender);
  Answer refuse(int code, std::string_view dsn, const Name& name, std::string_view text,
                mail::ErrorClass error = mail::ErrorClass::policy);
  /// Notes a refusal (4xx) that counts only if the lists permit in the end.
  Answer refuse_if_permitted(int code, std::string_view dsn, const Name& name, std::string_view text);
  /// Refuses because a table cannot be read.
  Answer table_problem(std::string_view subject);
  Answer server_error(std::string_view what);

  // checks_access.cc
  [[gnu::noinline]] async::Task<map::AddressValue> look_up(map::MapList maps, std::string key);
  [[gnu::noinline]] async::Task<Answer> name_access(const Restriction& r, std::string host, Name name);
  [[gnu::noinline]] async::Task<Answer> address_access(const Restriction& r, std::string address, Name name);
  /// Acts on what r's tables returned for `name`.
  [[gnu::noinline]] async::Task<Answer> act_on(const map::AddressValue& found, const Restriction& r, Name name);
  /// Carries out an action that is neither malformed nor a list of restrictions.
  Answer act(const AccessAction& action, const Name& name);
  /// Carries out an action on the whole message (HOLD, BCC, …), or warns that it comes too early or too late.
  Answer act_on_message(const AccessAction& action, const Name& name);

  // checks_client.cc
  Answer client_named(NameState state, std::string_view what);
  Answer valid_helo();

  // checks_tls.cc
  /// Looks up the fingerprints of the certificate and its key. Sets `name` to the last fingerprint looked up.
  [[gnu::noinline]] async::Task<map::AddressValue> look_up_certificate(const map::MapList& maps, Name& name);
  // checks_login.cc
  /// owned_only: a client that has logged in may use addresses without an owner.
  [[gnu::noinline]] async::Task<Answer> login_mismatch(bool owned_only);

  // checks_address.cc
  Answer fully_qualified(std::string_view address, const Name& name);
  async::Task<Result<resolve::AddressClass>> class_of(std::string_view domain);
  /// Whether the recipient is in a domain of ours and has no local part that routes elsewhere (user%there@here,
  /// "user@there"@here): such mail must not be accepted from strangers.
  [[gnu::noinline]] async::Task<Result<bool>> authorized_destination();
  [[gnu::noinline]] async::Task<Answer> guard_relaying(int code, std::string_view dsn);
  [[gnu::noinline]] async::Task<Answer> unlisted(std::string given, Name name, bool sender);
  Answer unreadable(const std::string& given, const std::string& address, const Error& error);
  int unlisted_code(resolve::AddressClass cls) const;
  std::string unlisted_text(resolve::AddressClass cls) const;
  /// Refuses with the text of relocated_maps.
  [[gnu::noinline]] async::Task<Answer> moved_away(std::string given, std::string address, Name name, bool sender);
  /// Refuses if the routing tables lead to the transport error, with its text.
  [[gnu::noinline]] async::Task<Result<Answer>> refused_by_route(std::string address, Name name, bool sender);
  [[gnu::noinline]] async::Task<Answer> domain_known(const std::string& address, Name name,
                                                     std::string_view missing_dsn, std::string_view null_mx_dsn,
                                                     int null_mx_code);

  void log_line(std::string_view verb, std::string_view reply) const;
  Verdict finish(Answer answer);

  Name client_name() const;
  Name helo_label() const;
  Name sender_label() const;
  Name recipient_label() const;

  const Policy& policy_;
  CheckTools tools_;
  Subject subject_;
  std::string reply_;
  mail::ErrorClass error_ = mail::ErrorClass::policy;  // of reply_
  std::string if_permit_;                              // reply to give instead of a permit
  bool if_reject_ = false;
  bool warn_ = false;       // warn_if_reject applies to this restriction
  bool warn_next_ = false;  // warn_if_reject will apply to the next restriction
  bool after_content_ = false;
  intake::Effects effects_;
  int depth_ = 0;
};

}  // namespace pen::smtpd
