#include "qmgr/router_feed.h"

#include "lib/base/log.h"

namespace pen::qmgr {

RouterFeed::RouterFeed(async::Loop& loop, std::string path, std::function<void()> poke)
    : loop_(loop), path_(std::move(path)), poke_(std::move(poke)), wanted_(loop) {}

void RouterFeed::start(Manager& manager) {
  manager_ = &manager;
  loop_.spawn("router feed", run());
}

void RouterFeed::route(const ipc::route::Route& request) {
  if (channel_ && waiting_.empty()) {
    last_sent_ = request.request;
    static_cast<void>(channel_->send(request));
    return;
  }
  waiting_.push_back(
      {request.request, std::string(request.recipient), std::string(request.sender)});
  wanted_.set();
}

async::Task<void> RouterFeed::run() {
  Pace pace;
  bool complained = false;
  for (;;) {
    static_cast<void>(co_await wanted_.wait());
    auto channel = co_await ipc::connect_channel<ipc::route::FromRewrite, ipc::route::ToRewrite>(
        loop_, path_, ipc::route::kName, {.deadline = loop_.now() + seconds(60)});
    if (!channel) {
      if (!complained) log::warning("connect to {}: {}", path_, channel.error().message());
      complained = true;
      static_cast<void>(co_await loop_.sleep(pace.next()));
      continue;
    }
    complained = false;
    channel_.emplace(*std::move(channel));
    for (const Waiting& w : std::exchange(waiting_, {})) {
      last_sent_ = w.request;
      static_cast<void>(channel_->send(ipc::route::Route{w.request, w.recipient, w.sender}));
    }
    wanted_.reset();
    for (;;) {
      auto received = co_await channel_->receive();
      if (!received) {
        log::warning("{}: {}", path_, received.error().message());
        break;
      }
      pace.reset();
      manager_->routed(std::get<ipc::route::Routed>(received->message));
      poke_();
    }
    channel_.reset();
    manager_->router_lost(last_sent_);
    poke_();
    static_cast<void>(co_await loop_.sleep(pace.next()));
  }
}

}  // namespace pen::qmgr
