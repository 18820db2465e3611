#include "qmgr/delivery_agents.h"

#include <algorithm>

#include "lib/base/check.h"

namespace pen::qmgr {

DeliveryAgents::DeliveryAgents(async::Loop& loop, const std::string& transport, const std::vector<std::string>& paths,
                               Manager& manager, std::function<void(ConnectionNumber)> gone)
    : transport_(transport), manager_(manager), programs_(paths.size()) {
  PEN_CHECK(!paths.empty(), "a transport without a program");
  for (std::size_t i = 0; i < paths.size(); ++i)
    programs_[i].agent =
        std::make_unique<DeliveryAgent>(loop, transport, paths[i], manager,
                                        DeliveryAgent::Events{.up = [this, i](bool up) { came_or_went(i, up); },
                                                              .unreachable = [this, i] { cannot_be_reached(i); },
                                                              .gone =
                                                                  [this, gone](ConnectionNumber connection) {
                                                                    which_.erase(connection);
                                                                    gone(connection);
                                                                  }});
}

bool DeliveryAgents::any_up() const { return std::ranges::any_of(programs_, &Program::up); }

void DeliveryAgents::came_or_went(std::size_t program, bool up) {
  const bool before = any_up();
  programs_[program].up = up;
  if (up) programs_[program].reachable = true;
  // Said again where one that is down ends once more: what was begun since is stopped.
  if (any_up() != before || !before) manager_.event()->scheduler.transport_up(transport_, any_up());
}

// One that has just died is back in a moment: what waits is put off when none can be reached.
void DeliveryAgents::cannot_be_reached(std::size_t program) {
  programs_[program].reachable = false;
  if (std::ranges::none_of(programs_, &Program::reachable))
    manager_.event()->jobs.transport_failed(transport_, "mail transport unavailable");
}

void DeliveryAgents::open(const ipc::delivery::OpenConnection& open) {
  if (programs_.size() > 1) {
    for (std::size_t tried = 0; tried < programs_.size(); ++tried) {
      turn_ = (turn_ + 1) % programs_.size();
      if (programs_[turn_].up) break;
    }
    which_[open.connection] = turn_;
  }
  of(open.connection)->open(open);
}

void DeliveryAgents::close(ConnectionNumber connection) {
  if (DeliveryAgent* agent = of(connection)) agent->close(connection);
}

void DeliveryAgents::hand(ipc::delivery::Job& job, Fd body) {
  DeliveryAgent* agent = of(job.connection);
  PEN_CHECK(agent != nullptr, "a job for a connection that has gone");
  agent->hand(job, std::move(body));
}

DeliveryAgent* DeliveryAgents::of(ConnectionNumber connection) {
  if (programs_.size() == 1) return programs_.front().agent.get();
  const auto at = which_.find(connection);
  return at == which_.end() ? nullptr : programs_[at->second].agent.get();
}

}  // namespace pen::qmgr
