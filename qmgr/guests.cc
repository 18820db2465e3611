#include "qmgr/guests.h"

#include <algorithm>

namespace pen::qmgr {

Guests::Guest::Guest(Guests& guests, Users::iterator user) : guests_(guests), user_(user) {
  ++guests_.connections_;
  ++user_->second.connections;
}

Guests::Guest::~Guest() {
  end();
  --guests_.connections_;
  // The pause is forgotten with the last connection: coming anew costs about as much.
  if (--user_->second.connections == 0) guests_.users_.erase(user_);
}

async::Task<void> Guests::Guest::begin() {
  User& user = user_->second;
  (void)co_await user.turn.acquire();
  in_turn_ = true;
  const SteadyTime next = user.next;
  if (next > guests_.loop_.now()) (void)co_await guests_.loop_.sleep(next - guests_.loop_.now());
  began_ = guests_.loop_.now();
}

void Guests::Guest::end() {
  if (!std::exchange(in_turn_, false)) return;
  User& user = user_->second;
  const SteadyTime now = guests_.loop_.now();
  user.next = now + std::min<SteadyTime::duration>(now - began_, kLongestPause);
  user.turn.release();
}

std::unique_ptr<Guests::Guest> Guests::enter(uid_t uid) {
  if (connections_ >= all_) return nullptr;
  const auto user = users_.try_emplace(uid, loop_).first;
  if (user->second.connections >= each_) return nullptr;
  return std::make_unique<Guest>(*this, user);
}

}  // namespace pen::qmgr
