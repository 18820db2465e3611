#include "qmgr/delivery_agent.h"

#include <unistd.h>

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/log.h"

namespace pen::qmgr {

using ipc::delivery::Stage;

DeliveryAgent::DeliveryAgent(async::Loop& loop, std::string transport, std::string path, Manager& manager,
                             Events events)
    : loop_(loop),
      transport_(std::move(transport)),
      manager_(manager),
      events_(std::move(events)),
      link_(
          loop,
          {.path = std::move(path), .conversation = ipc::delivery::kName, .on_demand = true, .report = log::as_warning},
          *this) {
  link_.start();
}

Result<void> DeliveryAgent::make_page() {
  // A new page for each life of the program: one that lingers cannot write into the next one's.
  PEN_TRY_ASSIGN(page_fd_, ipc::make_stage_page(kSlots));
  PEN_TRY(page_.map(page_fd_.get(), kSlots));
  free_slots_.clear();
  for (std::uint32_t i = kSlots; i > 0; --i) free_slots_.push_back(i - 1);
  return {};
}

void DeliveryAgent::open(const ipc::delivery::OpenConnection& open) {
  connections_[open.connection];
  if (link_.connected()) {
    (void)link_.channel().send(open);
    return;
  }
  to_open_.push_back(open);
  link_.want();
}

void DeliveryAgent::close(ConnectionNumber connection) {
  if (link_.connected()) {
    (void)link_.channel().send(ipc::delivery::CloseConnection{connection});
  } else {
    std::erase_if(to_open_, [&](const auto& o) { return o.connection == connection; });
    if (connections_.contains(connection)) forget(connection);
  }
}

void DeliveryAgent::forget(ConnectionNumber connection, bool lingers) {
  connections_.erase(connection);
  if (lingers)
    lingering_.insert(connection);
  else
    released(connection);
}

void DeliveryAgent::released(ConnectionNumber connection) {
  events_.gone(connection);
  manager_.connection_gone(connection);
}

void DeliveryAgent::take(ipc::delivery::ConnectionGone& m) {
  if (lingering_.erase(m.connection) > 0) released(m.connection);
}

void DeliveryAgent::hand(ipc::delivery::Job& job, Fd body) {
  PEN_CHECK(link_.connected() && page_.mapped(), "a job for a program that is not there");
  PEN_CHECK(!free_slots_.empty(), "more jobs handed out than the stage page has slots");
  job.slot = free_slots_.back();
  free_slots_.pop_back();
  page_.set(job.slot, Stage::handed);
  jobs_[job.job] = {job.connection, job.slot};
  connections_[job.connection].push_back(job.job);
  Fd fds[] = {std::move(body)};
  const std::span<Fd> with(fds, fds[0] ? 1 : 0);
  if (auto sent = link_.channel().send(job, with); !sent) {
    loop_.post([this, number = job.job, why = sent.error().message()] {
      ipc::delivery::JobResult result;  // no recipient has a result: all are deferred
      result.job = number;
      log::error("a job for {} cannot be sent: {}", transport_, why);
      take(result);
    });
  }
}

void DeliveryAgent::release(JobNumber job) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  free_slots_.push_back(it->second.slot);
  if (auto c = connections_.find(it->second.connection); c != connections_.end()) std::erase(c->second, job);
  jobs_.erase(it);
}

void DeliveryAgent::take(ipc::delivery::ConnectionOpened& m) {
  // As many jobs as there are slots can be in hand at once; a share of them for each connection.
  m.features.window = std::clamp(m.features.window, 1U, 1024U);
  if (free_slots_.size() < kSlots / 4) m.features.window = 1;
  manager_.event()->scheduler.opened(m.connection, m.features);
}

void DeliveryAgent::take(ipc::delivery::ConnectionClosed& m) {
  if (m.connection == ipc::delivery::kNoConnection) {
    leaving_ = true;
    // An end in order, whatever was written to it meanwhile.
    link_.give_up(Error(async::WaitError::closed));
    return;
  }
  const auto it = connections_.find(m.connection);
  if (it == connections_.end()) return;
  // A job that crossed with this message was never begun: its stage says so.
  for (const JobNumber job : it->second) {
    if (page_.at(jobs_.at(job).slot) == Stage::handed &&
        std::find(m.unstarted.begin(), m.unstarted.end(), job) == m.unstarted.end()) {
      m.unstarted.push_back(job);
    }
  }
  for (const JobNumber job : std::vector<JobNumber>(it->second)) release(job);
  forget(m.connection, m.lingers);
  // The next program is there when this one has hung up: until then its jobs wait.
  if (m.trouble == ipc::delivery::Trouble::replaced) events_.up(false);
  manager_.event()->jobs.connection_closed(m);
}

void DeliveryAgent::take(ipc::delivery::JobResult& m) {
  if (!jobs_.contains(m.job)) return;
  release(m.job);
  manager_.event()->jobs.result(m);
}

void DeliveryAgent::died(bool was_connected, const std::string& why) {
  events_.up(false);
  const bool left = std::exchange(leaving_, false);
  std::vector<ConnectionNumber> lost;
  for (const auto& [connection, jobs] : connections_) lost.push_back(connection);
  std::sort(lost.begin(), lost.end());
  if (was_connected) {
    std::vector<JobNumber> in_hand;
    // A program that left in order never saw what it did not begin.
    for (const auto& [job, handed] : jobs_)
      if (!left || page_.at(handed.slot) != Stage::handed) in_hand.push_back(job);
    std::sort(in_hand.begin(), in_hand.end());
    for (const JobNumber job : in_hand) manager_.event()->jobs.survived_death(job);
  }
  for (const ConnectionNumber connection : lost) {
    ipc::delivery::ConnectionClosed closed;
    closed.connection = connection;
    closed.opened = true;  // not the destination's fault
    closed.status = mail::make_status(mail::Action::deferred, "4.3.0", "the delivery program ended: " + why);
    for (const JobNumber job : connections_[connection]) {
      if (page_.at(jobs_.at(job).slot) != Stage::committed) closed.unstarted.push_back(job);
    }
    for (const JobNumber job : std::vector<JobNumber>(connections_[connection])) release(job);
    forget(connection);
    manager_.event()->jobs.connection_closed(closed);
  }
  for (const ConnectionNumber connection : std::exchange(lingering_, {})) released(connection);
  connections_.clear();
  jobs_.clear();
  to_open_.clear();
  // A program that has died is back in a moment; one that cannot be reached then is not.
  if (++failures_ > 1) events_.unreachable();
  link_.want();
}

void DeliveryAgent::on_connected() {
  if (auto page = make_page(); !page) {
    link_.give_up(std::move(page).error());
    return;
  }
  Fd fds[] = {Fd(::dup(page_fd_.get()))};
  (void)link_.channel().send(ipc::delivery::StagePage{kSlots}, fds);
  for (const auto& open : std::exchange(to_open_, {})) (void)link_.channel().send(open);
  if (std::exchange(failures_, 0) > 0) events_.up(true);
}

void DeliveryAgent::on_message(Link::Channel::Received& received) {
  std::visit([this](auto& m) { take(m); }, received.message);
}

}  // namespace pen::qmgr
