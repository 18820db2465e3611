#pragma once
/// The restriction lists at each stage of a session, for one client, one sender, one recipient.
///
/// Use:     Checks checks(policy, {loop, tables, names}, subject); Verdict v = co_await checks.recipient();
///          if (v.rejected()) … reply with v.reply …               // it has been logged already
/// Order:   as Postfix: with smtpd_delay_reject the client, HELO and sender lists are evaluated at RCPT. Then come
///          the relay and recipient lists, the check for listed recipients, and last the refusals deferred until a
///          permit. What the restrictions do is in restrictions.h, what they work on in evaluation.h.
/// Thread:  the loop's. A Checks object is used for one evaluation; several may be in progress for one session.
#include "smtpd/evaluation.h"

namespace pen::smtpd {

class Checks {
 public:
  Checks(const Policy& policy, CheckTools tools, Subject subject) : e_(policy, tools, std::move(subject)) {}

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

  Subject& subject() { return e_.subject; }

 private:
  [[gnu::noinline]] async::Task<Evaluation::Answer> run_lists_before_recipient(bool with_sender);
  /// smtpd_sender_restrictions, then what smtpd_reject_unlisted_sender asks.
  [[gnu::noinline]] async::Task<Evaluation::Answer> run_sender_list();
  /// As Postfix does: lists about content know the recipient, if it is the only one.
  void about_only_recipient();

  Evaluation e_;
};

}  // namespace pen::smtpd
