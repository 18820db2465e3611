#include "qmgr/bounce_feed.h"

#include "lib/base/log.h"

namespace pen::qmgr {

BounceFeed::BounceFeed(async::Loop& loop, std::string path, std::function<void()> poke)
    : loop_(loop), path_(std::move(path)), poke_(std::move(poke)), wanted_(loop) {}

void BounceFeed::start(Manager& manager) {
  manager_ = &manager;
  loop_.spawn("bounce feed", run());
}

void BounceFeed::notify(const ipc::bounce::Notify& request, async::Fd body) {
  if (!channel_) {
    wanted_.set();
    return;
  }
  async::Fd fds[] = {std::move(body)};
  const std::span<async::Fd> with(fds, fds[0] ? 1 : 0);
  if (auto sent = channel_->send(request, with); !sent) {
    // Only a message with an immense envelope: it can never be reported in one frame.
    loop_.post([this, number = request.request, why = sent.error().message()] {
      manager_->notified({number, false, {}, why});
      poke_();
    });
  }
}

async::Task<void> BounceFeed::run() {
  Pace pace;
  for (;;) {
    static_cast<void>(co_await wanted_.wait());
    wanted_.reset();
    auto channel = co_await ipc::connect_channel<ipc::bounce::FromBounce, ipc::bounce::ToBounce>(
        loop_, path_, ipc::bounce::kName, {.deadline = loop_.now() + seconds(60)});
    if (!channel) {
      log::warning("connect to {}: {}", path_, channel.error().message());
      manager_->bounce_unavailable(channel.error().message());
      poke_();
      static_cast<void>(co_await loop_.sleep(pace.next()));
      continue;
    }
    channel_.emplace(*std::move(channel));
    manager_->bounce_ready();
    poke_();
    for (;;) {
      auto received = co_await channel_->receive();
      if (!received) {
        log::warning("{}: {}", path_, received.error().message());
        break;
      }
      pace.reset();
      manager_->notified(std::get<ipc::bounce::Notified>(received->message));
      poke_();
    }
    channel_.reset();
    manager_->bounce_lost();
    poke_();
    static_cast<void>(co_await loop_.sleep(pace.next()));
  }
}

}  // namespace pen::qmgr
