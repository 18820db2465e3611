#pragma once
/// One evaluation of restriction lists: what it is about, what it may ask, what the lists have said so far, how it
/// ends.
///
/// Use:     Evaluation e(policy, tools, subject);
///          const Answer answer = co_await e.run(policy.recipient, e.recipient_label());
///          Verdict v = e.finish(answer);
///          A restriction: if (…) return e.refuse(550, "5.7.1", e.sender_label(), "Access denied");
/// Logged:  each refusal when it is pronounced, by its text; one that counts only if the lists permit, at the end.
/// Source:  Postfix SMTPD_ACCESS_README, postconf(5); texts and codes have its shape.
/// Thread:  the loop's. Used for one evaluation; several may be in progress for one session.
#include <optional>
#include <string>

#include "lib/base/metrics/labels.h"
#include "lib/map/ask.h"
#include "lib/meaning/smtpd/policy.h"
#include "lib/net/dnsbl/lookup.h"
#include "lib/receive/intake/effects.h"
#include "lib/suite/sessions/sender_memory.h"
#include "smtpd/names.h"
#include "smtpd/policy_servers.h"
#include "smtpd/subject.h"
#include "smtpd/verifier.h"

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

class Evaluation {
 public:
  enum class Answer : std::uint8_t { dunno, permit, reject };
  struct Name {  // how a reply names what it rejects
    std::string value;
    std::string_view kind;  // "Client host", "Recipient address", …
  };

  Evaluation(const Policy& to_policy, CheckTools with, Subject about)
      : policy(to_policy), tools(with), subject(std::move(about)) {}

  /// Evaluates a list up to the first restriction that permits or refuses. name: the list's subject, which replies name
  /// unless the restriction has a subject of its own.
  [[gnu::noinline]] async::Task<Answer> run(const RestrictionList& list, Name name);
  Verdict finish(Answer answer);

  /// Permits, and logs it where smtpd_log_access_permit_actions wants that. table: that of the action; empty: none.
  Answer permits(std::string_view action, const Name& name, std::string_view table = {});
  Answer refuse(int code, std::string_view dsn, const Name& name, std::string_view text,
                mail::ErrorClass error = mail::ErrorClass::policy);
  /// Notes a reply (450) to give in place of a refusal for good: something that is not known now might have prevented
  /// it.
  Answer defer_if_refused(std::string_view dsn, const Name& name, std::string_view text);
  /// Notes a refusal (4xx) that counts only if the lists permit in the end.
  Answer refuse_if_permitted(int code, std::string_view dsn, const Name& name, std::string_view text);
  /// What was noted by defer_if_refused() holds no longer.
  void forget_deferral() { if_reject_.clear(); }
  /// Refuses because a table cannot be read.
  Answer table_problem(std::string_view about);
  Answer server_error(std::string_view what);
  void log_line(std::string_view verb, std::string_view reply) const;

  /// Nobody will get the message: no list is asked any more, and any address will do.
  bool discarded() const { return subject.discarded || effects.discard; }

  Name client_name() const { return {subject.client->peer.shown(), "Client host"}; }
  Name helo_label() const { return {subject.client->helo, "Helo command"}; }
  Name sender_label() const { return {subject.sender.value_or(""), "Sender address"}; }
  Name recipient_label() const { return {subject.recipient.value_or(""), "Recipient address"}; }
  Name etrn_label() const { return {std::string(subject.etrn_domain), "Etrn command"}; }

  const Policy& policy;
  CheckTools tools;
  Subject subject;
  intake::Effects effects;
  std::string greylisted;                            // Verdict::greylisted
  metrics::Reason reason = metrics::Reason::policy;  // of the restriction under way
  bool warn = false;                                 // warn_if_reject applies to this restriction
  bool warn_next = false;                            // warn_if_reject will apply to the next restriction
  bool after_content = false;                        // the content has come
  bool by_default = false;                           // the default_action of a policy service is carried out

 private:
  std::string reply_;
  mail::ErrorClass error_ = mail::ErrorClass::policy;  // of reply_
  std::string if_permit_;                              // reply to give instead of a permit
  metrics::Reason if_permit_reason_ = metrics::Reason::policy;
  std::string if_reject_;  // reply to give instead of a refusal for good
  int depth_ = 0;
};

}  // namespace pen::smtpd
