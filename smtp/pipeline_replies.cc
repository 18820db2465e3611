// What replies mean for the messages. The table is in docs/pipelining.md.
#include "lib/base/check.h"
#include "lib/base/metrics/metrics.h"
#include "smtp/pipeline.h"

namespace pen::smtp {

mail::DeliveryStatus Pipeline::success(const mail::Recipient& recipient, const mail::Reply& reply) const {
  auto action = mail::Action::delivered;
  if ((recipient.notify & mail::notify::kSuccess) != 0) {
    if (offers_.dsn)
      action = mail::Action::transferred;
    else if (!settings_.assume_final)
      action = mail::Action::relayed;
  }
  auto status = peer_.took(reply);
  status.action = action;
  return status;
}

void Pipeline::on_time(SteadyTime now) {
  const auto due = proof_due();
  if (!due || now < *due) return;
  held_ = 0;
  report_settled(now);
}

void Pipeline::on_reply(const mail::Reply& reply, SteadyTime now) {
  if (owed_.empty()) {
    if (reply.code == 421) {
      ending_.last_was_421 = true;
      ending_.leave(Trouble::peer_421, peer_.said(reply));
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
  ending_.last_was_421 = reply.code == 421;
  if (owed.step == Step::rset)
    on_reset(owed, reply);
  else
    on_answer(owed, reply, now);
  if (owed_.empty()) held_ = 0;
  if (leaving_ && owed_.empty() && writing_ == 0) ending_.leave(Trouble::peer_421, std::move(ending_.status));
}

void Pipeline::on_reset(const Owed& owed, const mail::Reply& reply) {
  Transaction* t = find(owed.transaction);
  PEN_CHECK(!owed.ends_probe || (t != nullptr && t->owed > 0), "a reply is owed to a live probe");
  if (owed.ends_probe) {
    --t->owed;
    --probe_resets_;
  }
  if (reply.code == 421) {
    on_421(owed);
    if (t != nullptr && !owed.ends_probe) t->by_421 = true;
    ending_.status = peer_.said(reply, "RSET command");
  } else if (!reply.positive()) {
    // A peer that does not know RSET has answered every command before it: the replies are in step.
    const bool unknown = reply.code == 500 || reply.code == 502 || reply.code == 503;
    if (owed.ends_probe && unknown && held_ + 1 == t->number && !t->mail_refused) held_ = 0;
    protocol_error("no agreement to RSET", Step::rset, reply);
  }
}

/// To a command of a message, or to its content.
void Pipeline::on_answer(const Owed& owed, const mail::Reply& reply, SteadyTime now) {
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
      // No reply is quicker than the path. A handshake took longer than that if its first packet was lost.
      round_trip_ = std::min(round_trip_, std::chrono::ceil<microseconds>(now - t->started));
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
    ending_.status = peer_.said(reply);
  }
}

void Pipeline::on_421(const Owed& owed) {
  leaving_ = true;
  Transaction* t = find(owed.transaction);
  if (t != nullptr &&
      (owed.step == Step::xforward || owed.step == Step::mail || owed.step == Step::rcpt || owed.step == Step::data))
    t->by_421 = true;
}

void Pipeline::on_mail(Transaction& t, const mail::Reply& reply) {
  if (reply.positive()) return;
  if (reply.intermediate()) {
    protocol_error("an unexpected reply", Step::mail, reply);
    return;
  }
  ending_.note_refusal(reply);
  t.mail_refused = true;
  t.settle_rest(peer_.said(reply, "MAIL FROM command"));
}

void Pipeline::on_rcpt(Transaction& t, std::size_t index, const mail::Reply& reply) {
  if (reply.intermediate()) {
    protocol_error("an unexpected reply", Step::rcpt, reply);
  } else if (t.mail_refused) {
    if (reply.positive()) ++t.accepted_in_vain;
  } else if (reply.positive() && t.is_probe() && !settings_.probe_data) {
    t.settle(index, peer_.took(reply));
  } else if (reply.positive()) {
    t.recipients[index].state = Recipient::State::accepted;
    ++t.accepted;
  } else {
    ending_.note_refusal(reply);
    t.settle(index, peer_.said(reply, "RCPT TO command", true));
  }
}

void Pipeline::on_data(Transaction& t, const mail::Reply& reply, SteadyTime now) {
  if (reply.positive()) {
    protocol_error("an unexpected reply", Step::data, reply);
    return;
  }
  held_ = 0;  // as many replies came as were owed: the good end of data before is believed
  if (!reply.intermediate()) {
    if (t.accepted > 0) ending_.note_refusal(reply);  // without recipients a refusal is expected
    t.settle_rest(peer_.said(reply, "DATA command"));
    skip_rest(t);
    return;
  }
  if (t.is_probe()) {
    // Content must not follow, and no command may: the peer drops the message with the connection.
    t.settle_accepted(peer_.took(reply));
    skip_rest(t);
    report_settled(now);
    ending_.leave(Trouble::none, {});
    return;
  }
  if (t.accepted > 0) {
    t.at = At::content;
  } else if (t.mail_refused && t.accepted_in_vain > 0) {
    protocol_error("a go-ahead for a refused sender", Step::data, reply);
  } else if (settings_.lmtp) {
    // How many replies would "." get here? RFC 2033 says none, but servers differ: give this connection up.
    ending_.leave(Trouble::none, peer_.said(reply, "DATA command"));
  } else {
    t.dot_only = true;  // RFC 2920 section 3.1: send "." alone and expect its failure
    t.at = At::content;
  }
}

void Pipeline::on_end_of_data(Transaction& t, const Owed& owed, const mail::Reply& reply, SteadyTime now) {
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
  if (!reply.positive() && t.accepted > 0) ending_.note_refusal(reply);
  if (reply.positive() && t.final_owed == 0) {
    metrics::smtp_messages.add();
    metrics::smtp_sent_bytes.add(t.job->body.size);
  }
  if (t.accepted > 0) t.by_421 = false;  // the peer continued after all
  if (reply.positive() && t.mail_refused && t.accepted_in_vain > 0) {
    // The peer refused the sender but took the message: nobody knows which message it thinks it has.
    protocol_error("an acceptance after it refused the sender", owed.step, reply);
    for (auto& recipient : t.recipients) recipient.status = ending_.status;
    return;
  }
  auto outcome = [&](std::size_t i) {
    if (t.recipients[i].state != Recipient::State::accepted) return;
    t.settle(i, reply.positive() ? success(t.job->recipients[i].recipient, reply) : peer_.said(reply, command));
  };
  if (settings_.lmtp) {
    outcome(owed.recipient);
  } else {
    for (std::size_t i = 0; i < t.recipients.size(); ++i) outcome(i);
  }
  if (early) {  // refused before the content was out: its rest cannot be sent to anybody
    ending_.leave(reply.code == 421 ? Trouble::peer_421 : Trouble::lost, peer_.said(reply, command));
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

}  // namespace pen::smtp
