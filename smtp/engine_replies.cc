// What replies, and their absence, mean for the jobs. The table is in docs/pipelining.md.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/metrics/metrics.h"
#include "smtp/engine.h"

namespace pen::smtp {

namespace {
std::string soft(std::string dsn) {
  if (!dsn.empty()) dsn[0] = '4';
  return dsn;
}
}  // namespace

mail::DeliveryStatus Engine::said(const mail::Reply& reply, std::string_view command, bool treat_552_as_452) const {
  mail::DeliveryStatus status;
  const bool hard = reply.permanent() && !(treat_552_as_452 && reply.code == 552);
  status.action = hard ? mail::Action::failed : mail::Action::deferred;
  status.dsn = hard ? reply.dsn_or_default() : soft(reply.dsn_or_default());
  status.text = "host " + peer_.shown + " said: " + reply.text;
  if (!command.empty()) {
    status.text += " (in reply to ";
    status.text += command;
    status.text += ')';
  }
  status.diagnostic = "smtp; " + reply.text;
  status.remote_mta = peer_.host;
  return status;
}

mail::DeliveryStatus Engine::success(const mail::Recipient& recipient, const mail::Reply& reply) const {
  auto action = mail::Action::delivered;
  if ((recipient.notify & mail::notify::kSuccess) != 0) {
    if (offers_.dsn)
      action = mail::Action::transferred;
    else if (!settings_.assume_final)
      action = mail::Action::relayed;
  }
  auto status = would_take(reply);
  status.action = action;
  return status;
}

/// The result of a probe after its recipient was accepted. The go-ahead after DATA (3xx) has no enhanced status code
/// of its own (RFC 2034).
mail::DeliveryStatus Engine::would_take(const mail::Reply& reply) const {
  return {mail::Action::delivered, reply.positive() ? reply.dsn_or_default() : "2.0.0", reply.text,
          "smtp; " + reply.text, peer_.host};
}

mail::DeliveryStatus Engine::loss_status(End how, std::string_view doing_what) const {
  mail::DeliveryStatus status{mail::Action::deferred, "4.4.2", {}, {}, {}};
  if (how == End::content_error) {
    status.dsn = "4.3.0";
    status.text = "local error reading the message content";
    return status;
  }
  status.text = how == End::timed_out ? "conversation with " + peer_.shown + " timed out while "
                                      : "lost connection with " + peer_.shown + " while ";
  status.text += doing_what;
  return status;
}

void Engine::leave(Trouble trouble, mail::DeliveryStatus status) {
  if (phase_ == Phase::over) return;
  const bool by_tls = broke_by_tls() && (trouble == Trouble::lost || trouble == Trouble::timed_out);
  trouble_ = by_tls ? Trouble::tls : trouble;
  trouble_status_ = std::move(status);
  phase_ = Phase::over;
}

void Engine::note_refusal(const mail::Reply& reply) {
  if ((reply.code >= 500 && reply.code < 510) || reply.code == 555) errors_.add(mail::ErrorClass::protocol);
}

void Engine::protocol_error(std::string_view what, Step step, const mail::Reply& reply) {
  errors_.add(mail::ErrorClass::protocol);
  if (pipelining()) misbehaved_ = true;
  mail::DeliveryStatus status{mail::Action::deferred, "4.5.0", {}, "smtp; " + reply.text, peer_.host};
  status.text = "protocol error: host " + peer_.shown + " sent " + std::string(what) + " while " +
                std::string(doing(step)) + ": " + printable(reply.text, 200);
  last_was_421_ = false;
  leave(Trouble::lost, std::move(status));
}

void Engine::on_line(std::string_view line, SteadyTime now) {
  if (phase_ == Phase::over || finished_) return;
  if (phase_ == Phase::tls) {
    // RFC 3207 section 5: an attacker may have sent it, to be taken for the peer's after the handshake.
    tls_not_to_be_had("sent clear text after it agreed to start TLS", nullptr);
    return;
  }
  const auto reply = parser_.feed(line);
  if (!reply) return;
  const std::optional<Step> step = owed_.empty() ? std::nullopt : std::optional(owed_.front().step);
  if (step == Step::greeting) {
    hello_at_ = now;
  } else if (step == Step::ehlo) {
    // The handshake may have been answered by somebody nearer: a proxy, or a router that accelerates TCP.
    round_trip_ = std::max(round_trip_, std::chrono::ceil<microseconds>(now - hello_at_));
  } else if (step == Step::mail) {
    // No reply is quicker than the path. A handshake took longer than that if its first packet was lost.
    if (const Transaction* t = find(owed_.front().transaction); t != nullptr)
      round_trip_ = std::min(round_trip_, std::chrono::ceil<microseconds>(now - t->started));
  }
  metrics::smtp_replies.add(reply->code >= 500   ? metrics::ReplyClass::permanent
                            : reply->code >= 400 ? metrics::ReplyClass::transient
                                                 : metrics::ReplyClass::positive);
  const bool was_opened = opened_;
  on_reply(*reply, now);
  if (opened_ && !was_opened) ready_at_ = now;
  report_settled(now);
}

void Engine::on_time(SteadyTime now) {
  const auto due = proof_due();
  if (!due || now < *due) return;
  held_ = 0;
  report_settled(now);
}

void Engine::on_reply(const mail::Reply& reply, SteadyTime now) {
  if (owed_.empty()) {
    if (reply.code == 421) {
      last_was_421_ = true;
      leave(Trouble::peer_421, said(reply, {}));
    } else {
      protocol_error(reply.malformed ? "garbage" : "a reply that answers nothing", Step::quit, reply);
    }
    return;
  }
  const Owed owed = owed_.front();
  if (reply.malformed) {
    protocol_error("garbage", awaiting().value_or(owed.step), reply);
    return;
  }
  owed_.pop_front();
  last_was_421_ = reply.code == 421;
  if (owed.step <= Step::lhlo) {
    on_hello_reply(reply, owed.step);
    return;
  }
  if (owed.step == Step::starttls) {
    on_starttls_reply(reply);
    return;
  }
  if (owed.step == Step::auth) {
    on_auth_reply(reply);
    return;
  }
  if (owed.step == Step::rset) {
    Transaction* t = find(owed.transaction);
    PEN_CHECK(!owed.ends_probe || (t != nullptr && t->owed > 0), "a reply is owed to a live probe");
    if (owed.ends_probe) {
      --t->owed;
      --probe_resets_;
    }
    if (reply.code == 421) {
      on_421(owed);
      if (t != nullptr && !owed.ends_probe) t->by_421 = true;
      trouble_status_ = said(reply, "RSET command");
    } else if (!reply.positive()) {
      // A peer that does not know RSET has answered every command before it: the replies are in step.
      const bool unknown = reply.code == 500 || reply.code == 502 || reply.code == 503;
      if (owed.ends_probe && unknown && held_ + 1 == t->number && !t->mail_refused) held_ = 0;
      protocol_error("no agreement to RSET", Step::rset, reply);
    }
  } else {
    Transaction* t = find(owed.transaction);
    PEN_CHECK(t != nullptr && t->owed > 0, "a reply is owed to a live transaction");
    --t->owed;
    mail_answered_ = true;
    switch (owed.step) {
      case Step::xforward:
        // XFORWARD is only for the peer's log: the mail goes without it, and this connection sends no more XFORWARD.
        if (reply.intermediate())
          protocol_error("an unexpected reply", Step::xforward, reply);
        else if (!reply.positive())
          offers_.xforward = 0;
        break;
      case Step::mail:
        on_mail(*t, reply);
        break;
      case Step::rcpt:
        on_rcpt(*t, owed.recipient, reply);
        break;
      case Step::data:
        on_data(*t, reply, now);
        break;
      default:
        on_end_of_data(*t, owed, reply, now);
        break;
    }
    if (reply.code == 421) {
      on_421(owed);
      trouble_status_ = said(reply, {});
    }
  }
  if (owed_.empty()) held_ = 0;
  if (leaving_ && owed_.empty() && writing_ == 0) leave(Trouble::peer_421, std::move(trouble_status_));
}

void Engine::on_421(const Owed& owed) {
  leaving_ = true;
  Transaction* t = find(owed.transaction);
  if (t != nullptr &&
      (owed.step == Step::xforward || owed.step == Step::mail || owed.step == Step::rcpt || owed.step == Step::data))
    t->by_421 = true;
}

void Engine::on_hello_reply(const mail::Reply& reply, Step step) {
  auto refused = [&] {
    note_refusal(reply);
    mail::DeliveryStatus status = said(reply, {});
    status.action = mail::Action::deferred;
    status.dsn = soft(std::move(status.dsn));
    status.text = "host " + peer_.shown + " refused to talk to me: " + reply.text;
    leave(reply.permanent() ? Trouble::greeting_5xx : Trouble::greeting_4xx, std::move(status));
  };
  if (reply.intermediate()) {
    protocol_error("an unexpected reply", step, reply);
    return;
  }
  if (step == Step::greeting) {
    if (reply.permanent() && !settings_.skip_5xx_greeting) {
      // Every job gets this answer, without a command: the mail is returned.
      note_refusal(reply);
      not_for_us_ = said(reply, {});
      not_for_us_->text = "host " + peer_.shown + " refused to talk to me: " + reply.text;
      phase_ = Phase::ready;
      opened_ = true;
      events_.emplace_back(Opened{offers_, window()});
      return;
    }
    if (!reply.positive()) {
      refused();
      return;
    }
    phase_ = Phase::hello;
    const bool esmtp = reply.text.find("ESMTP") != std::string::npos;
    if (settings_.lmtp)
      hello(Step::lhlo);
    else if (settings_.never_send_ehlo || (!settings_.always_send_ehlo && !esmtp))
      hello(Step::helo);
    else
      hello(Step::ehlo);
    return;
  }
  if (!reply.positive()) {
    if (step == Step::ehlo && reply.code != 421)
      hello(Step::helo);  // RFC 5321 section 3.2
    else
      refused();
    return;
  }
  parser_.keep_lines(false);
  if (step != Step::helo) offers_ = parse_offers(reply.lines, settings_.discard_keywords);
  if (tls_comes_first()) return;
  if (!encrypted()) offers_.requiretls = false;  // RFC 8689 section 2: it means nothing in clear text
  if (settings_.requiretls && !offers_.requiretls) {
    requiretls_not_offered();
    return;
  }
  become_ready();
}

void Engine::become_ready() {
  starttls_said_ = false;  // later errors have nothing to do with TLS
  if (login_comes_first()) return;
  phase_ = Phase::ready;
  opened_ = true;
  events_.emplace_back(Opened{offers_, window()});
}

void Engine::on_mail(Transaction& t, const mail::Reply& reply) {
  if (reply.positive()) return;
  if (reply.intermediate()) {
    protocol_error("an unexpected reply", Step::mail, reply);
    return;
  }
  note_refusal(reply);
  t.mail_refused = true;
  settle_rest(t, said(reply, "MAIL FROM command"));
}

void Engine::on_rcpt(Transaction& t, std::size_t index, const mail::Reply& reply) {
  if (reply.intermediate()) {
    protocol_error("an unexpected reply", Step::rcpt, reply);
  } else if (t.mail_refused) {
    if (reply.positive()) ++t.accepted_in_vain;
  } else if (reply.positive() && t.is_probe() && !settings_.probe_data) {
    settle(t, index, would_take(reply));
  } else if (reply.positive()) {
    t.recipients[index].state = Recipient::State::accepted;
    ++t.accepted;
  } else {
    note_refusal(reply);
    settle(t, index, said(reply, "RCPT TO command", true));
  }
}

void Engine::on_data(Transaction& t, const mail::Reply& reply, SteadyTime now) {
  if (reply.positive()) {
    protocol_error("an unexpected reply", Step::data, reply);
    return;
  }
  held_ = 0;  // as many replies came as were owed: the good end of data before is believed
  if (!reply.intermediate()) {
    if (t.accepted > 0) note_refusal(reply);  // without recipients a refusal is expected
    settle_rest(t, said(reply, "DATA command"));
    skip_rest(t);
    return;
  }
  if (t.is_probe()) {
    // Content must not follow, and no command may: the peer drops the message with the connection.
    for (std::size_t i = 0; i < t.recipients.size(); ++i)
      if (t.recipients[i].state == Recipient::State::accepted) settle(t, i, would_take(reply));
    skip_rest(t);
    report_settled(now);
    leave(Trouble::none, {});
    return;
  }
  if (t.accepted > 0) {
    t.at = At::content;
  } else if (t.mail_refused && t.accepted_in_vain > 0) {
    protocol_error("a go-ahead for a refused sender", Step::data, reply);
  } else if (settings_.lmtp) {
    // How many replies would "." get here? RFC 2033 says none, but servers differ: give this connection up.
    leave(Trouble::none, said(reply, "DATA command"));
  } else {
    t.dot_only = true;  // RFC 2920 section 3.1: send "." alone and expect its failure
    t.at = At::content;
  }
}

void Engine::on_end_of_data(Transaction& t, const Owed& owed, const mail::Reply& reply, SteadyTime now) {
  --t.final_owed;
  const bool early = !t.written && !t.dot_only;
  const std::string_view command = t.uses_bdat ? "BDAT command" : "end of DATA command";
  if (reply.intermediate() || (reply.positive() && early)) {
    ++t.final_owed;
    protocol_error("an unexpected reply", owed.step, reply);
    return;
  }
  if (t.final_owed == 0 && t.in_flight) {
    t.in_flight = false;
    --in_flight_;
    in_flight_bytes_ -= t.job->body.size;
  }
  if (t.dot_only) return;
  if (!reply.positive() && t.accepted > 0) note_refusal(reply);
  if (reply.positive() && t.final_owed == 0) {
    metrics::smtp_messages.add();
    metrics::smtp_sent_bytes.add(t.job->body.size);
  }
  if (t.accepted > 0) t.by_421 = false;  // the peer continued after all
  if (reply.positive() && t.mail_refused && t.accepted_in_vain > 0) {
    // The peer refused the sender but took the message: nobody knows which message it thinks it has.
    protocol_error("an acceptance after it refused the sender", owed.step, reply);
    for (auto& recipient : t.recipients) recipient.status = trouble_status_;
    return;
  }
  auto outcome = [&](std::size_t i) {
    if (t.recipients[i].state != Recipient::State::accepted) return;
    settle(t, i, reply.positive() ? success(t.job->recipients[i].recipient, reply) : said(reply, command));
  };
  if (settings_.lmtp) {
    outcome(owed.recipient);
  } else {
    for (std::size_t i = 0; i < t.recipients.size(); ++i) outcome(i);
  }
  if (early) {  // refused before the content was out: its rest cannot be sent to anybody
    leave(reply.code == 421 ? Trouble::peer_421 : Trouble::lost, said(reply, command));
    return;
  }
  if (t.final_owed > 0) return;
  const Transaction* next = find(t.number + 1);
  const bool last = next == nullptr || next->at == At::queued;
  if (t.uses_bdat && reply.positive() && t.accepted > 0 && last) reset_owed_ = false;
  if (!t.uses_bdat && !last && next->owed > 0 && (next->at == At::data_wait || next->is_probe())) {
    held_ = t.number;
    proof_due_ = now + kProofTime;
  }
}

void Engine::settle(Transaction& t, std::size_t recipient, const mail::DeliveryStatus& status) {
  auto& r = t.recipients[recipient];
  if (r.state == Recipient::State::settled) return;
  r.state = Recipient::State::settled;
  r.status = status;
  ++t.settled;
}

void Engine::settle_rest(Transaction& t, const mail::DeliveryStatus& status) {
  for (std::size_t i = 0; i < t.recipients.size(); ++i) settle(t, i, status);
}

void Engine::report(Transaction& t, SteadyTime now, bool cut_short, bool own_fault) {
  JobDone done{.job = t.job,
               .results = {},
               .service_time = std::chrono::duration_cast<microseconds>(now - t.started),
               .connection_use = t.use,
               .cut_short = cut_short,
               .own_fault = own_fault};
  const auto is_rest = [](const Recipient& r) { return r.rest; };
  const auto is_taken = [](const Recipient& r) { return r.status.dsn.starts_with('2'); };
  if (std::ranges::any_of(t.recipients, is_rest) && std::ranges::any_of(t.recipients, is_taken))
    for (const auto& r : t.recipients) done.rest.push_back(r.rest);
  done.results.reserve(t.recipients.size());
  for (auto& r : t.recipients) done.results.push_back(std::move(r.status));
  events_.emplace_back(std::move(done));
  ++completed_;
}

void Engine::report_settled(SteadyTime now) {
  if (phase_ == Phase::over) return;  // finish() decides
  while (!transactions_.empty()) {
    Transaction& t = transactions_.front();
    if (!t.all_settled() || t.owed > 0 || t.at != At::sent || t.number == held_ || (t.by_421 && leaving_)) return;
    report(t, now);
    transactions_.pop_front();
  }
}

Ended Engine::why_ended(End how) const {
  const Step step = awaiting().value_or(writing_ != 0 ? Step::content : Step::rset);
  const bool begun = std::any_of(transactions_.begin(), transactions_.end(),
                                 [](const auto& t) { return t.at != At::queued && !t.all_settled(); });
  Ended ended;
  ended.opened = opened_;
  if (how == End::by_engine || (phase_ == Phase::over && trouble_ != Trouble::none)) {
    ended.trouble = trouble_;
    ended.status = trouble_status_;
  } else if (leaving_) {
    ended.trouble = Trouble::peer_421;
    ended.status = trouble_status_;
  } else {
    ended.status = loss_status(how, doing(step));
    if (how == End::content_error)
      ended.trouble = Trouble::local;
    else if (broke_by_tls() || (begun && lost_in_tls(how)))
      ended.trouble = Trouble::tls;
    else if (how == End::timed_out)
      ended.trouble = Trouble::timed_out;
    else if (opened_ && !begun && owed_.empty())
      ended.trouble = Trouble::none;  // the peer may close an idle connection
    else
      ended.trouble = Trouble::lost;
  }
  if (ended.trouble == Trouble::none && how == End::by_engine && ended.status.text.empty()) {
    ended.status = mail::make_status(mail::Action::deferred, "4.4.2", "connection with " + peer_.shown + " was closed");
  }
  return ended;
}

Engine::Fate Engine::settle_at_end(Transaction& t, End how, const mail::DeliveryStatus& status, bool out_of_step,
                                   bool& culprit_found) {
  if (t.number == held_ && out_of_step) {
    for (auto& r : t.recipients) {
      if (r.status.action != mail::Action::failed) r.status = loss_status(End::closed, doing(Step::end_of_data));
    }
    return Fate::cut_short;
  }
  if (t.is_probe() && t.owed > 0 && t.all_settled() && out_of_step) {
    for (auto& r : t.recipients) r.status = loss_status(how, doing(Step::rset));
    return Fate::cut_short;
  }
  if (t.all_settled() && !t.by_421) return Fate::answered;
  if (t.at == At::queued) return Fate::unstarted;
  if (how == End::content_error && t.number == writing_) {
    culprit_found = true;
    settle_rest(t, status);
    return Fate::cut_short;
  }
  // Commands are executed in order: after 421 none was.
  const bool in_doubt = t.committed && !last_was_421_ && !t.all_settled();
  if (in_doubt) {
    const End why = how == End::timed_out ? End::timed_out : End::closed;
    settle_rest(t, loss_status(why, doing(Step::end_of_data)));
    return Fate::cut_short;
  }
  if (!culprit_found && completed_ == 0) {
    // The first transaction of a connection is held responsible: without a penalty a message that makes peers hang up
    // would be retried without pause.
    culprit_found = true;
    settle_rest(t, status);
    return Fate::cut_short;
  }
  if (t.written && settings_.lmtp && t.settled > 0) {
    settle_rest(t, status);  // recipients that have their final reply keep it
    return Fate::cut_short;
  }
  return Fate::unstarted;
}

void Engine::finish(End how, SteadyTime now) {
  PEN_CHECK(!finished_, "a connection ends once");
  finished_ = true;
  if (how == End::content_error) errors_.add(mail::ErrorClass::data);
  Ended ended = why_ended(how);
  // A swallowed or doubled reply shows in time-outs and in replies that do not fit. In these cases a good end of data
  // without proof is not believed. A peer that just closes after its answer has answered.
  const bool out_of_step = how == End::timed_out || misbehaved_;
  if (pipelining() && opened_ && !owed_.empty()) {
    // A lost reply looks like silence. A peer that cannot take groups of commands hangs up in the first one.
    if (how == End::timed_out || (how == End::closed && completed_ == 0 && owed_.size() > 1 && !last_was_421_))
      misbehaved_ = true;
  }
  // The next connection will go on in clear text, so no transaction is held responsible for this end.
  bool culprit_found = ended.opened && ended.trouble == Trouble::tls;
  for (auto& t : transactions_) {
    const Fate fate = settle_at_end(t, how, ended.status, out_of_step, culprit_found);
    if (fate == Fate::unstarted)
      ended.unstarted.push_back(t.job);
    else
      report(t, now, fate == Fate::cut_short, how == End::content_error);
  }
  ended.misbehaved = misbehaved_;
  transactions_.clear();
  owed_.clear();
  phase_ = Phase::over;
  events_.emplace_back(std::move(ended));
}

}  // namespace pen::smtp
