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

#include "lib/dnsbl/lookup.h"
#include "lib/intake/effects.h"
#include "lib/map/ask.h"
#include "lib/metrics/labels.h"
#include "lib/sessions/sender_memory.h"
#include "lib/smtpd/policy.h"
#include "smtpd/access.h"
#include "smtpd/names.h"
#include "smtpd/policy_servers.h"
#include "smtpd/subject.h"
#include "smtpd/verifier.h"

namespace pen::spf {
enum class Verdict : std::uint8_t;
}
namespace pen::dmarc {
struct Outcome;
}
namespace pen::suppression {
class List;
}

namespace pen::smtpd {

/// What evaluations of one process share.
struct CheckTools {
  async::Loop& loop;
  map::Asker& tables;
  Names& names;
  dnsbl::Lookup& lists;
  PolicyServers& policies;
  async::Cancel* stopping;                   // raised when the process ends
  sessions::SenderMemory* memory = nullptr;  // for check_greylist; none: it cannot be asked
  Verifier* verifier = nullptr;              // for reject_unverified_*; none: it cannot be asked
  suppression::List* suppression = nullptr;  // none: it cannot be asked
};

struct Verdict {
  std::string reply;                                  // without CRLF; empty: not refused
  mail::ErrorClass error = mail::ErrorClass::policy;  // of a reply that rejects
  metrics::Reason reason = metrics::Reason::policy;   // the same
  intake::Effects effects;                            // other effects of the lists
  std::string greylisted;                             // a field that says how long it was put off; empty: it was not
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
  async::Task<Verdict> author();     // before the lists for the end of data: what the policy of the author asks
  async::Task<Verdict> end_of_data();
  async::Task<Verdict> etrn();
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
#define PEN_RESTRICTION_REMOVED(name, instead)
#include "lib/config/restrictions.def"
  async::Task<Answer> restriction_class(const Restriction& r, const Name& about);
  Answer unsupported(const Restriction& r, const Name& about);
  Answer unknown(const Restriction& r, const Name& about);

  // checks.cc
  struct Handler;
  static const Handler& handler(Check check);
  [[gnu::noinline]] async::Task<Answer> run(const RestrictionList& list, Name name);
  [[gnu::noinline]] async::Task<Answer> run_lists_before_recipient(bool with_sender);
  /// smtpd_sender_restrictions, then what smtpd_reject_unlisted_sender asks.
  [[gnu::noinline]] async::Task<Answer> run_sender_list();
  /// Permits, and logs it where smtpd_log_access_permit_actions wants that. table: that of the action; empty: none.
  Answer permits(std::string_view action, const Name& name, std::string_view table = {});
  Answer refuse(int code, std::string_view dsn, const Name& name, std::string_view text,
                mail::ErrorClass error = mail::ErrorClass::policy);
  /// Notes a reply (450) to give in place of a refusal for good: something that is not known now might have prevented
  /// it.
  Answer defer_if_refused(std::string_view dsn, const Name& name, std::string_view text);
  /// Notes a refusal (4xx) that counts only if the lists permit in the end.
  Answer refuse_if_permitted(int code, std::string_view dsn, const Name& name, std::string_view text);
  /// Refuses because a table cannot be read.
  Answer table_problem(std::string_view subject);
  Answer server_error(std::string_view what);

  // checks_access.cc
  [[gnu::noinline]] async::Task<map::AddressValue> look_up(map::MapList maps, std::string key);
  /// By the name and its parents, then by the client's address and its networks.
  [[gnu::noinline]] async::Task<Answer> client_access(const Restriction& r, std::string host, Name name);
  [[gnu::noinline]] async::Task<Answer> name_access(const Restriction& r, std::string host, Name name);
  [[gnu::noinline]] async::Task<Answer> address_access(const Restriction& r, std::string address, Name name);
  /// Acts on what r's tables returned for `name`.
  [[gnu::noinline]] async::Task<Answer> act_on(const map::AddressValue& found, const Restriction& r, Name name);
  /// Carries out an action that is neither malformed nor a list of restrictions.
  Answer act(const AccessAction& action, const Name& name, std::string_view table);
  /// Carries out an action on the whole message (HOLD, BCC, …), or warns that it comes too early or too late.
  Answer act_on_message(const AccessAction& action, const Name& name, std::string_view table);

  // checks_policy.cc
  std::string policy_request_for(const PolicyService& service) const;

  // checks_client.cc
  Answer client_named(NameState state, std::string_view what);
  Answer valid_helo();

  // checks_dns_lists.cc
  struct ListQuestion {
    std::string what;                 // as the reply shows it
    std::string_view kind;            // the same: "Client host", …
    std::optional<std::string> name;  // the question; nullopt: there is nothing to ask
  };
  ListQuestion ask_of_address(const Restriction& r) const;
  static ListQuestion ask_of_name(const Restriction& r, std::string name, std::string_view kind);
  /// Refuses what the list has.
  [[gnu::noinline]] async::Task<Answer> refuse_listed(const Restriction& r, ListQuestion question);
  /// Permits what the list has, where that opens no relay.
  [[gnu::noinline]] async::Task<Answer> permit_listed(const Restriction& r, ListQuestion question);
  [[gnu::noinline]] async::Task<Answer> listed_reply(const dnsbl::List& list, ListQuestion question);
  /// Refuses with a whole reply: code, status code if it has one, text.
  Answer refuse_with(std::string_view reply);
  /// Asks all lists that are about this recipient, at once.
  void ask_ahead_of_recipient();

  // checks_servers.cc
  enum class Servers : std::uint8_t { addresses, mail, names };
  struct ServerSearch;
  async::Task<Answer> client_servers(const Restriction& r, Servers servers);
  async::Task<Answer> reverse_client_servers(const Restriction& r, Servers servers);
  async::Task<Answer> helo_servers(const Restriction& r, Servers servers);
  async::Task<Answer> sender_servers(const Restriction& r, Servers servers);
  async::Task<Answer> recipient_servers(const Restriction& r, Servers servers);
  /// Looks up the servers of a host name or an address in r's tables, by name and by address.
  [[gnu::noinline]] async::Task<Answer> server_access(const Restriction& r, std::string of, Servers servers, Name name);
  [[gnu::noinline]] async::Task<std::vector<std::string>> servers_of(ServerSearch& search);
  /// nullopt: the tables have nothing about this one.
  [[gnu::noinline]] async::Task<std::optional<Answer>> one_server_access(const Restriction& r, std::string host,
                                                                         ServerSearch& search, Name name);
  /// A stranger's choice of a name must permit nothing.
  Answer never_permit(Answer answer, const Restriction& r, std::string_view target);
  [[gnu::noinline]] async::Task<Answer> backup_mx_for(std::string domain);
  /// Whether this host is one of these.
  [[gnu::noinline]] async::Task<bool> is_one_of(std::vector<std::string> hosts, async::Until until);
  [[gnu::noinline]] async::Task<bool> all_in_backup_networks(std::vector<std::string> hosts, async::Until until);
  /// The domain of an address; a host name is its own.
  static std::string_view host_of(std::string_view address);

  // checks_tls.cc
  /// Looks up the fingerprints of the certificate and its key. Sets `name` to the last fingerprint looked up.
  [[gnu::noinline]] async::Task<map::AddressValue> look_up_certificate(const map::MapList& maps,
                                                                       std::vector<Print> order, Name& name);
  // checks_login.cc
  /// owned_only: a client that has logged in may use addresses without an owner.
  [[gnu::noinline]] async::Task<Answer> login_mismatch(bool owned_only);

  // checks_address.cc
  Answer fully_qualified(std::string_view address, const Name& name);
  async::Task<Result<resolve::AddressClass>> class_of(std::string_view domain);
  /// Whether the recipient is in a domain of ours and has no local part that routes elsewhere (user%there@here,
  /// "user@there"@here): such mail must not be accepted from strangers.
  [[gnu::noinline]] async::Task<Result<bool>> authorized_destination();
  /// Whether the local part may hold a route to another host, so that the domain alone permits nothing.
  bool routed_elsewhere(std::string_view address) const;
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

  // checks_greylist.cc
  sessions::SenderMemory::Question greylist_question() const;

  // checks_verify.cc
  struct Verification {  // the settings of one of the two restrictions
    std::int64_t reject_code, defer_code;
    std::string_view reason;
    config::TempfailAction tempfail;
    std::string_view dsn;
  };
  /// An address that probes come from, our own: it must be possible to ask back about it.
  bool sends_probes(std::string_view address) const;
  [[gnu::noinline]] async::Task<Answer> unverified(std::string given, Name name, Verification how);
  Answer put_off(const Verification& how, std::int64_t code, const Name& name, std::string_view text);

  // checks_authentication.cc
  /// Refuses if SPF has this result.
  [[gnu::noinline]] async::Task<Answer> refuse_by_spf(std::string_view restriction, spf::Verdict verdict);
  Answer refuse_by_dmarc(const dmarc::Outcome& outcome);
  Answer defer_by_dmarc(const dmarc::Outcome& outcome);

  // checks_quota.cc
  /// The senders with their limits: the login and the sender address, as far as they have any. Errors:
  /// smtpd_quota_maps.
  [[gnu::noinline]] async::Task<Result<std::vector<ipc::sender_memory::QuotaUser>>> quota_users();

  // checks_suppression.cc
  /// Refuses a recipient of the suppression list.
  [[gnu::noinline]] async::Task<Answer> suppressed();

  /// Nobody will get the message: no list is asked any more, and any address will do.
  bool discarded() const { return subject_.discarded || effects_.discard; }
  /// As Postfix does: lists about content know the recipient, if it is the only one.
  void about_only_recipient();
  void log_line(std::string_view verb, std::string_view reply) const;
  Verdict finish(Answer answer);

  Name client_name() const;
  Name helo_label() const;
  Name sender_label() const;
  Name recipient_label() const;
  Name etrn_label() const;

  const Policy& policy_;
  CheckTools tools_;
  Subject subject_;
  metrics::Reason reason_ = metrics::Reason::policy;  // of the restriction under way
  metrics::Reason if_permit_reason_ = metrics::Reason::policy;
  std::string reply_;
  mail::ErrorClass error_ = mail::ErrorClass::policy;  // of reply_
  std::string if_permit_;                              // reply to give instead of a permit
  std::string if_reject_;                              // reply to give instead of a refusal for good
  bool warn_ = false;                                  // warn_if_reject applies to this restriction
  bool warn_next_ = false;                             // warn_if_reject will apply to the next restriction
  bool after_content_ = false;
  bool by_default_ = false;  // the default_action of a policy service is carried out
  intake::Effects effects_;
  std::string greylisted_;
  int depth_ = 0;
};

}  // namespace pen::smtpd
