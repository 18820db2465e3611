/// What becomes of recipients and, when the round is over, of the message.
#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/mail/stated_delay.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

void Manager::conclude(Active& m) {
  if (m.order != Active::Order::none) {
    obey(m);
    return;
  }
  if (rounds_.expire(m)) return;  // comes back when the records are durable
  if (!m.report_refused && reports_.start(m)) return;
  if (m.report_refused && m.remaining.empty()) reports_.give_up(m);
  if (m.remaining.empty() && !m.owes()) {
    finish(m);
  } else {
    defer(m);
  }
}

void Manager::finish(Active& m) {
  must(log_.finish(m.id()));
  log::info("{}: removed", m.id());
  ++figures_.finished;
  if (m.spool_file != 0) ports_.release_body(m.spool_file, m.id());
  active_.remove(m);
}

seconds Manager::next_delay(const Active& m, seconds usual) const {
  // A peer that says when to come back is believed, within the bounds: later than usual if every recipient was told so,
  // sooner down to a quarter, so that "in five minutes" does not bring us every five minutes for days.
  std::optional<seconds> least;
  const std::string* last = nullptr;
  seconds last_wait = usual;
  for (const auto& range : m.remaining.ranges()) {
    for (std::uint32_t i = range.first; i < range.end; ++i) {
      const auto note = m.notes.find(i);
      seconds wait = usual;
      if (note != m.notes.end()) {
        const mail::DeliveryStatus& status = note->second.status;
        if (last == nullptr || *last != status.text)
          last_wait = mail::stated_delay(status).value_or(usual);
        last = &status.text;
        wait = last_wait;
      }
      least = least ? std::min(*least, wait) : wait;
    }
  }
  return std::clamp(least.value_or(usual), std::max(options_.backoff_min, usual / 4),
                    options_.backoff_max);
}

void Manager::defer(Active& m) {
  // The interval grows with the message's age, as in Postfix: each try comes after about twice the time of the last.
  const auto age = std::chrono::duration_cast<seconds>(now() - m.envelope().arrival);
  const auto usual = std::clamp(age, options_.backoff_min, options_.backoff_max);
  const auto log = log_.retry_log_for(m.parked ? seconds(0) : next_delay(m, usual));
  const auto body = active_.body_of(m);
  if (!body) return rounds_.lose(m);
  must(log_.defer(m.id(), log, to_log(m, *body)));
  Runner& r = runners_[log];
  const WallTime due = now() + log_.interval(log);
  r.next = r.next ? std::min(*r.next, due) : due;
  if (!m.parked) ++figures_.deferred;
  active_.remove(m);
}

void Manager::obey(Active& m) {
  queue_log::Ticket ticket = 0;
  const bool nothing_left = m.remaining.empty() && !m.owes();
  if (m.order == Active::Order::remove || nothing_left) {
    ticket = must(log_.remove(m.id()));
    log::info("{}: removed", m.id());
    if (m.spool_file != 0) ports_.release_body(m.spool_file, m.id());
    ++figures_.finished;
  } else if (const auto body = active_.body_of(m); !body) {
    return rounds_.lose(m);
  } else if (m.order == Active::Order::hold) {
    ticket = must(log_.hold(m.id(), to_log(m, *body)));
    log::info("{}: placed on hold", m.id());
  } else {
    ticket = must(log_.release(m.id(), to_log(m, *body)));
    runners_[queue_log::kJournal].look = true;
    log::info("{}: {}", m.id(), m.order == Active::Order::expire ? "expired" : "requeued");
  }
  acknowledgements_.when_durable(ticket, [this, waiting = std::move(m.rare().ordered_by)] {
    for (const auto& w : waiting) w(true);
    runners_[queue_log::kJournal].look = true;
  });
  active_.remove(m);
}

void Manager::order(const queue_log::Listed& where, ipc::queue::Verb verb, Done done_with) {
  order(where, verb, done_with, Tries{});
}

void Manager::order(const queue_log::Listed& where, ipc::queue::Verb verb, Done done_with,
                    Tries tries) {
  using ipc::queue::Outcome;
  using ipc::queue::Verb;
  const Turn turn(turns_);
  const auto report = [done_with](bool obeyed) {
    done_with(obeyed ? Outcome::ok : Outcome::failed);
  };
  if (Active* active = active_.find(where.queue_id)) {
    Active& m = *active;
    switch (verb) {
      case Verb::remove:
        rounds_.end_by_order(m, Active::Order::remove, report);
        return;
      case Verb::hold:
        rounds_.end_by_order(m, Active::Order::hold, report);
        return;
      case Verb::requeue:
        rounds_.end_by_order(m, Active::Order::requeue, report);
        return;
      case Verb::expire:
      case Verb::expire_release: {
        if (m.forced_expire && m.order == Active::Order::none) break;  // read so from the log
        m.forced_expire = true;
        const bool to_be_held = m.order == Active::Order::hold && verb == Verb::expire;
        rounds_.end_by_order(m, to_be_held ? Active::Order::hold : Active::Order::expire, report);
        return;
      }
      case Verb::release:  // it is not on hold, and is being tried
      case Verb::flush:
        break;
    }
    done_with(Outcome::ok);
    return;
  }
  if (log_.recovery() == queue_log::Recovery::done && !may_admit() && verb == Verb::flush &&
      where.place.log != queue_log::kHold) {
    orders_waiting_.push_back({where, verb, std::move(done_with)});
    return;
  }
  // Without its record, when that surely holds the whole body: then there is nothing to free but the record.
  if (verb == Verb::remove && where.stored >= where.size && where.size <= options_.inline_limit) {
    if (auto ticket = log_.remove(where.place, where.queue_id, where.generation)) {
      log::info("{}: removed", where.queue_id);
      acknowledgements_.when_durable(*ticket, [report] { report(true); });
      return;
    }
  }
  auto stored = log_.read(where.place);
  if (!stored) {
    if (stored.error().is(queue_log::QueueLogError::io_error)) ports_.fatal(stored.error());
    done_with(stored.error().is(queue_log::QueueLogError::not_found) ? Outcome::not_found
                                                                     : Outcome::failed);
    return;
  }
  const std::string id = stored->envelope.queue_id;
  const auto later = [&](const Error& e) {
    using queue_log::QueueLogError;
    if (e.is(QueueLogError::superseded) || e.is(QueueLogError::no_space)) {
      done_with(e.is(QueueLogError::no_space) ? Outcome::no_space : Outcome::not_found);
      return;
    }
    // It was just put into this log and the end of its last round is not on disk yet: after a sync it is.
    if (!e.is(QueueLogError::not_found) && !e.is(QueueLogError::recovering)) ports_.fatal(e);
    if (tries.moving-- == 0) {
      done_with(Outcome::failed);
      return;
    }
    log_.save_positions();
    log_.flush();
    after_commit_.push_back(
        [this, where, verb, done_with, tries] { order(where, verb, done_with, tries); });
  };
  if (verb == Verb::remove) {
    auto m = from_log(queue_log::Stored(*stored));
    const auto ticket = log_.remove(where.place, id, stored->generation);
    if (!ticket) {
      later(ticket.error());
      return;
    }
    log::info("{}: removed", id);
    if (m && m->spool_file != 0) ports_.release_body(m->spool_file, id);
    acknowledgements_.when_durable(*ticket, [report] { report(true); });
    return;
  }
  const bool held = where.place.log == queue_log::kHold;
  if (verb != Verb::flush) {
    auto m = from_log(queue_log::Stored(*stored));
    if (expires(verb) && !m) {
      done_with(Outcome::failed);
      return;
    }
    const bool stays_held = held && verb == Verb::expire;
    if ((verb == Verb::hold && held) || (stays_held && m->forced_expire)) {
      done_with(Outcome::ok);
      return;
    }
    if (!log_.has_space()) {
      // The reserve is for deliveries. Segments come with the next commits if the disk has any.
      if (tries.space-- == 0) {
        done_with(Outcome::no_space);
        return;
      }
      log_.save_positions();
      after_commit_.push_back(
          [this, where, verb, done_with, tries] { order(where, verb, done_with, tries); });
      return;
    }
    if (auto started = log_.start(*stored); !started) {
      later(started.error());
      return;
    }
    queue_log::Envelope again = stored->envelope;
    if (m) {
      if (expires(verb)) m->forced_expire = true;
      again = to_log(*m, m->body);  // folds results in
    }
    const auto ticket =
        must(verb == Verb::hold || stays_held ? log_.hold(id, again) : log_.release(id, again));
    if (expires(verb)) log::info("{}: expired", id);
    if (verb == Verb::hold) log::info("{}: placed on hold", id);
    if (verb == Verb::requeue) log::info("{}: requeued", id);
    if (held && !stays_held) log::info("{}: released from hold", id);
    runners_[queue_log::kJournal].look = true;
    acknowledgements_.when_durable(ticket, [this, report] {
      runners_[queue_log::kJournal].look = true;
      report(true);
    });
    return;
  }
  // A flush: tried now, whatever its retry time is.
  if (held) {
    done_with(Outcome::ok);
    return;
  }
  if (auto started = log_.start(*stored); !started) {
    later(started.error());
    return;
  }
  auto m = read_begun(*std::move(stored));
  if (!m) {
    done_with(Outcome::failed);
    return;
  }
  scheduler_.override_deferral(admit(std::move(m)));
  done_with(Outcome::ok);
}

}  // namespace pen::qmgr
