// What the end of the connection means for the messages: absent replies. The table is in docs/pipelining.md.
#include <algorithm>

#include "lib/base/check.h"
#include "smtp/pipeline.h"

namespace pen::smtp {

void Pipeline::report_settled(SteadyTime now) {
  if (ending_.over) return;  // finish() decides
  while (!transactions_.empty()) {
    Transaction& t = transactions_.front();
    if (!t.all_settled() || t.owed > 0 || t.at != At::sent || t.number == held_ || (t.by_421 && leaving_)) return;
    events_.emplace_back(t.done(now));
    ++completed_;
    transactions_.pop_front();
  }
}

bool Pipeline::lost_in_tls(End how) const {
  return opened_ && optional_tls_ && !mail_answered_ && first_begun_at_ - ready_at_ <= kIdle &&
         (how == End::closed || how == End::timed_out);
}

Ended Pipeline::why_ended(End how, Step step) const {
  const bool begun = std::any_of(transactions_.begin(), transactions_.end(),
                                 [](const auto& t) { return t.at != At::queued && !t.all_settled(); });
  Ended ended;
  ended.opened = opened_;
  if (how == End::by_engine || (ending_.over && ending_.trouble != Trouble::none)) {
    ended.trouble = ending_.trouble;
    ended.status = ending_.status;
  } else if (leaving_) {
    ended.trouble = Trouble::peer_421;
    ended.status = ending_.status;
  } else {
    ended.status = peer_.lost(how, doing(step));
    if (how == End::content_error)
      ended.trouble = Trouble::local;
    else if (ending_.tls_to_blame || (begun && lost_in_tls(how)))
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

Pipeline::Fate Pipeline::settle_at_end(Transaction& t, End how, const mail::DeliveryStatus& status, bool out_of_step,
                                       bool& culprit_found) {
  if (t.number == held_ && out_of_step) {
    for (auto& r : t.recipients) {
      if (r.status.action != mail::Action::failed) r.status = peer_.lost(End::closed, doing(Step::end_of_data));
    }
    return Fate::cut_short;
  }
  if (t.is_probe() && t.owed > 0 && t.all_settled() && out_of_step) {
    for (auto& r : t.recipients) r.status = peer_.lost(how, doing(Step::rset));
    return Fate::cut_short;
  }
  if (t.all_settled() && !t.by_421) return Fate::answered;
  if (t.at == At::queued) return Fate::unstarted;
  if (how == End::content_error && t.number == writing_) {
    culprit_found = true;
    t.settle_rest(status);
    return Fate::cut_short;
  }
  // Commands are executed in order: after 421 none was.
  const bool in_doubt = t.committed && !ending_.last_was_421 && !t.all_settled();
  if (in_doubt) {
    const End why = how == End::timed_out ? End::timed_out : End::closed;
    t.settle_rest(peer_.lost(why, doing(Step::end_of_data)));
    return Fate::cut_short;
  }
  if (!culprit_found && completed_ == 0) {
    // The first transaction of a connection is held responsible: without a penalty a message that makes peers hang up
    // would be retried without pause.
    culprit_found = true;
    t.settle_rest(status);
    return Fate::cut_short;
  }
  if (t.written && settings_.lmtp && t.settled > 0) {
    t.settle_rest(status);  // recipients that have their final reply keep it
    return Fate::cut_short;
  }
  return Fate::unstarted;
}

void Pipeline::finish(End how, std::optional<Step> in_handshake, SteadyTime now) {
  if (how == End::content_error) ending_.errors.add(mail::ErrorClass::data);
  const auto step = in_handshake ? in_handshake : awaiting();
  Ended ended = why_ended(how, step.value_or(writing_ != 0 ? Step::content : Step::rset));
  // A swallowed or doubled reply shows in time-outs and in replies that do not fit. In these cases a good end of data
  // without proof is not believed. A peer that just closes after its answer has answered.
  const bool out_of_step = how == End::timed_out || ending_.misbehaved;
  if (pipelining() && opened_ && !owed_.empty()) {
    // A lost reply looks like silence. A peer that cannot take groups of commands hangs up in the first one.
    if (how == End::timed_out || (how == End::closed && completed_ == 0 && owed_.size() > 1 && !ending_.last_was_421))
      ending_.misbehaved = true;
  }
  // The next connection will go on in clear text, so no transaction is held responsible for this end.
  bool culprit_found = ended.opened && ended.trouble == Trouble::tls;
  for (auto& t : transactions_) {
    const Fate fate = settle_at_end(t, how, ended.status, out_of_step, culprit_found);
    if (fate == Fate::unstarted) {
      ended.unstarted.push_back(t.job);
      continue;
    }
    JobDone& done = std::get<JobDone>(events_.emplace_back(t.done(now)));
    done.cut_short = fate == Fate::cut_short;
    done.own_fault = how == End::content_error;
    ++completed_;
  }
  ended.misbehaved = ending_.misbehaved;
  transactions_.clear();
  owed_.clear();
  held_ = 0;
  ending_.over = true;
  events_.emplace_back(std::move(ended));
}

}  // namespace pen::smtp
