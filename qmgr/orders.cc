#include "qmgr/orders.h"

#include <utility>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/suite/events/emitter.h"

namespace pen::qmgr {

using ipc::queue::Outcome;
using ipc::queue::Step;
using ipc::queue::Verb;
using queue_log::kJournal;
using queue_log::QueueLogError;

namespace {
/// What an order makes of a message that is being worked on, and what is said in the log when it is written.
struct Effect {
  Verb verb;
  Active::Order on_active;  // none: nothing, it is being tried already
  std::string_view said;    // of a message at rest
};
constexpr Effect kEffects[] = {
    {Verb::remove, Active::Order::remove, "removed"},
    {Verb::hold, Active::Order::hold, "placed on hold"},
    {Verb::release, Active::Order::none, {}},
    {Verb::requeue, Active::Order::requeue, "requeued"},
    {Verb::expire, Active::Order::expire, "expired"},
    {Verb::flush, Active::Order::none, {}},
    {Verb::expire_release, Active::Order::expire, "expired"},
};
const Effect& effect_of(Verb verb) {
  const auto& effect = kEffects[static_cast<std::size_t>(verb)];
  PEN_CHECK(effect.verb == verb, "the table of orders is in their order");
  return effect;
}

/// In the log, and as an event.
void say(const std::string& id, std::string_view what, std::string_view by) {
  log::info("{}: {}", id, what);
  if (events::wanted())
    events::tell(events::Event(events::Type::order, events::now())
                     .text(events::Field::queue_id, id)
                     .text(events::Field::action, what)
                     .text(events::Field::by, by));
}
/// The step that watchers see.
Step step_of(Active::Order order, bool nothing_left) {
  if (order == Active::Order::remove) return Step::deleted;
  if (nothing_left) return Step::removed;
  return order == Active::Order::hold ? Step::held : Step::requeued;
}

std::string_view said_of(Active::Order order) {
  for (const Effect& effect : kEffects)
    if (effect.on_active == order) return effect.said;
  return {};
}
}  // namespace

void Orders::give(const queue_log::Listed& where, Verb verb, Done done, std::string by, bool named) {
  if (static_cast<std::size_t>(verb) >= std::size(kEffects)) return done(Outcome::failed);  // no verb of this release
  Order(*this, where, verb, std::move(done), std::move(by), named).give();
}

bool Orders::run_waiting() {
  if (waiting_.empty()) return false;
  Order next = std::move(waiting_.front());
  waiting_.pop_front();
  next.give();
  return true;
}

void Orders::commit_came() {
  for (Order& order : std::exchange(again_, {})) order.give();
}

void Orders::carry_out(Active& m) {
  queue_log::Ticket ticket = 0;
  const bool nothing_left = m.remaining.empty() && !m.owes();
  const bool removed = m.order == Active::Order::remove || nothing_left;
  if (removed) {
    ticket = around_.must(around_.log.work().remove(m.id()));
    if (m.spool_file != 0) around_.ports.release_body(m.spool_file, m.id());
    ++removed_;
    metrics::queue_messages_removed.add();
  } else if (const auto body = active_.body_of(m); !body) {
    return rounds_.lose(m);
  } else if (m.order == Active::Order::hold) {
    ticket = around_.must(around_.log.work().hold(m.id(), to_log(m, *body)));
  } else {
    ticket = around_.must(around_.log.work().release(m.id(), to_log(m, *body)));
    runners_.wake(kJournal);
  }
  say(m.id(), removed ? "removed" : said_of(m.order), m.seldom().orderer);
  around_.tell(m.id(), step_of(m.order, nothing_left));
  acknowledgements_.when_durable(ticket, [this, waiting = std::move(m.rare().ordered_by)] {
    for (const auto& w : waiting) w(true);
    runners_.wake(kJournal);
  });
  active_.remove(m);
}

void Orders::Order::give() {
  Orders& o = *orders_;
  if (Active* m = o.active_.find(where_.queue_id)) return on_active(*m);
  if (verb_ == Verb::flush && !held() && o.around_.log.restart().stage() == queue_log::Recovery::done &&
      !o.admission_.may_admit()) {
    o.waiting_.push_back(std::move(*this));
    return;
  }
  at_rest();
}

void Orders::Order::on_active(Active& m) {
  const Active::Order order = effect_of(verb_).on_active;
  if (order == Active::Order::none) return done_(Outcome::ok);
  const bool held_already = m.order == Active::Order::hold && verb_ == Verb::expire;
  if (expires(verb_)) {
    // Read so from the log: it is durable.
    if (m.forced_expire && m.order == Active::Order::none) return done_(Outcome::ok);
    m.forced_expire = true;
  }
  if (!by_.empty()) m.rare().orderer = by_;
  orders_->rounds_.end_by_order(m, held_already ? Active::Order::hold : order,
                                [done = done_](bool obeyed) { done(obeyed ? Outcome::ok : Outcome::failed); });
}

void Orders::Order::at_rest() {
  if (verb_ == Verb::remove && remove_unread()) return;
  auto stored = orders_->around_.log.runners().read(where_.place);
  if (!stored) {
    const Error& e = stored.error();
    if (e.is(QueueLogError::io_error)) orders_->around_.ports.fatal(e);
    return done_(e.is(QueueLogError::not_found) ? Outcome::not_found : Outcome::failed);
  }
  if (verb_ == Verb::remove) return remove(*std::move(stored));
  if (verb_ == Verb::flush) return flush(*std::move(stored));
  rewrite(*std::move(stored));
}

bool Orders::Order::remove_unread() {
  // When the record surely holds the whole body, there is nothing to free but the record.
  if (where_.stored < where_.size || where_.size > orders_->around_.options.inline_limit) return false;
  const auto ticket = orders_->around_.log.work().remove(where_.place, where_.queue_id, where_.generation);
  if (!ticket) return false;
  say(where_.queue_id, "removed", by_);
  orders_->around_.tell(where_.queue_id, Step::deleted);
  when_durable(*ticket);
  return true;
}

void Orders::Order::remove(queue_log::Stored stored) {
  const std::string id = stored.envelope.queue_id;
  const auto ticket = orders_->around_.log.work().remove(where_.place, id, stored.generation);
  if (!ticket) return refused(ticket.error());
  say(id, "removed", by_);
  orders_->around_.tell(id, Step::deleted);
  const auto m = from_log(std::move(stored));
  if (m && m->spool_file != 0) orders_->around_.ports.release_body(m->spool_file, id);
  when_durable(*ticket);
}

void Orders::Order::rewrite(queue_log::Stored stored) {
  const Surroundings& around = orders_->around_;
  auto m = from_log(queue_log::Stored(stored));
  if (expires(verb_) && !m) return done_(Outcome::failed);
  const bool stays_held = held() && verb_ == Verb::expire;
  if ((verb_ == Verb::hold && held()) || (stays_held && m->forced_expire)) return done_(Outcome::ok);
  if (!around.log.has_space()) {
    // The reserve is for deliveries. Segments come with the next commits if the disk has any.
    around.log.commits().save_positions();
    if (!again(space_)) done_(Outcome::no_space);
    return;
  }
  if (auto started = around.log.work().start(stored); !started) return refused(started.error());
  const std::string id = stored.envelope.queue_id;
  queue_log::Envelope written = std::move(stored.envelope);
  if (m) {
    if (expires(verb_)) m->forced_expire = true;
    written = to_log(*m, m->body);  // folds results in
  }
  const auto ticket = around.must(verb_ == Verb::hold || stays_held ? around.log.work().hold(id, written)
                                                                    : around.log.work().release(id, written));
  if (const auto said = effect_of(verb_).said; !said.empty()) say(id, said, by_);
  if (held() && !stays_held) say(id, "released from hold", by_);
  around.tell(id, verb_ == Verb::hold || stays_held ? Step::held : held() ? Step::released : Step::requeued);
  orders_->runners_.wake(kJournal);
  when_durable(ticket);
}

void Orders::Order::flush(queue_log::Stored stored) {
  // Tried now, whatever its retry time is; but what is on hold stays there.
  if (held()) return done_(Outcome::ok);
  const WallTime now = orders_->around_.now();
  const bool early = release_of(stored) > now;
  if (early && !named_) return done_(Outcome::ok);
  if (auto started = orders_->around_.log.work().start(stored); !started) return refused(started.error());
  auto m = orders_->admission_.read(std::move(stored));
  if (!m) return done_(Outcome::failed);
  if (early) {  // what is late by its arrival is not: its time begins now
    mail::Envelope envelope = m->take_envelope();
    envelope.release = now;
    m->set_envelope(std::move(envelope));
    say(m->id(), "released before its time", by_);
  }
  orders_->around_.scheduler.override_deferral(orders_->admission_.admit(std::move(m)).number);
  done_(Outcome::ok);
}

void Orders::Order::refused(const Error& why) {
  const Surroundings& around = orders_->around_;
  if (why.is(QueueLogError::superseded)) return done_(Outcome::not_found);
  if (why.is(QueueLogError::no_space)) return done_(Outcome::no_space);
  // It was just put into this log and the end of its last round is not on disk yet: after a sync it is.
  if (!why.is(QueueLogError::not_found) && !why.is(QueueLogError::recovering)) around.ports.fatal(why);
  around.log.commits().save_positions();
  around.log.commits().flush();
  if (!again(moving_)) done_(Outcome::failed);
}

bool Orders::Order::again(int& tries) {
  if (tries-- == 0) return false;
  orders_->again_.push_back(std::move(*this));
  return true;
}

void Orders::Order::when_durable(queue_log::Ticket ticket) {
  orders_->acknowledgements_.when_durable(ticket, [orders = orders_, done = std::move(done_)] {
    orders->runners_.wake(kJournal);
    done(Outcome::ok);
  });
}

}  // namespace pen::qmgr
