#include "bench/scheduler/network.h"

#include <utility>

namespace pen::simulation {

using ipc::delivery::Trouble;

namespace {

// A further recipient of a delivery costs the host this much.
constexpr microseconds kRecipientTime{1000};

}  // namespace

void Network::open(SteadyTime now, ConnectionNumber number, HostNumber host) {
  ++counts_.attempts;
  const auto [entry, fresh] = connections_.try_emplace(number);
  PEN_CHECK(fresh, "a connection's number is used twice");
  entry->second.host = host;
  const Host& h = internet_.host(host);
  SteadyTime at = now + 3 * microseconds(h.round_trip);
  if (h.kind == Host::Kind::dead) at = now + internet_.parameters().connect_timeout;
  if (h.kind == Host::Kind::tarpit) at += internet_.parameters().tarpit_reply;
  events_.add(at, Event::Kind::connected, number);
}

void Network::connected(ConnectionNumber number) {
  const auto entry = connections_.find(number);
  if (entry == connections_.end()) return;
  Connection& c = entry->second;
  const Host& h = internet_.host(c.host);
  if (h.kind == Host::Kind::dead) {
    ++counts_.timed_out;
    remove(entry);
    listener_.connection_closed(number, false, Trouble::timed_out, {});
    return;
  }
  if (h.connections_limit != 0 && open_[c.host] >= h.connections_limit) {
    ++counts_.refused;
    remove(entry);
    listener_.connection_closed(number, false, Trouble::greeting_4xx, {});
    return;
  }
  ++counts_.accepted;
  ++open_[c.host];
  c.open = true;
  listener_.connection_opened(number, h);
}

void Network::hand(SteadyTime now, ConnectionNumber number, Delivery&& delivery) {
  const auto entry = connections_.find(number);
  PEN_CHECK(entry != connections_.end() && entry->second.open, "a delivery on no connection");
  Connection& c = entry->second;
  delivery.handed = now;
  c.in_hand.push_back(std::move(delivery));
  if (c.in_hand.size() > 1 || c.ending) return;
  ++serving_;
  serve(now, number, c);
}

void Network::serve(SteadyTime now, ConnectionNumber number, const Connection& c) {
  const Host& h = internet_.host(c.host);
  const Delivery& d = c.in_hand.front();
  // A delivery sent while the one before was served has its round trips behind it.
  SteadyTime at = std::max(now, d.handed + 2 * microseconds(h.round_trip)) + microseconds(h.processing) +
                  kRecipientTime * static_cast<std::int64_t>(d.ordinals.size() - 1);
  if (h.kind == Host::Kind::tarpit) at += internet_.parameters().tarpit_reply;
  events_.add(at, Event::Kind::result, number);
}

void Network::result(SteadyTime now, ConnectionNumber number) {
  auto entry = connections_.find(number);
  PEN_CHECK(entry != connections_.end() && !entry->second.in_hand.empty());
  Connection& c = entry->second;
  const Host& h = internet_.host(c.host);
  Delivery delivery = std::move(c.in_hand.front());
  c.in_hand.pop_front();
  const auto service = std::chrono::duration_cast<microseconds>(now - delivery.handed);
  ++c.served;
  ++counts_.deliveries;
  --serving_;
  const bool ends = h.closes_after != 0 && c.served >= h.closes_after;
  c.ending = ends;
  if (!ends && !c.in_hand.empty()) {
    ++serving_;
    serve(now, number, c);
  }
  listener_.result(number, h, std::move(delivery), service);
  entry = connections_.find(number);  // the listener may have added deliveries, or closed the connection
  if (entry == connections_.end() || !ends) {
    if (entry != connections_.end() && entry->second.closing && entry->second.in_hand.empty()) remove(entry);
    return;
  }
  std::vector<JobNumber> unstarted;
  for (const Delivery& d : entry->second.in_hand) unstarted.push_back(d.job);
  remove(entry);
  ++counts_.closed_by_peer;
  listener_.connection_closed(number, true, Trouble::peer_421, unstarted);
}

void Network::remove(Entry entry) {
  if (entry->second.open) --open_[entry->second.host];
  const ConnectionNumber number = entry->first;
  connections_.erase(entry);
  listener_.connection_ended(number);
}

void Network::close(ConnectionNumber number) {
  const auto entry = connections_.find(number);
  if (entry == connections_.end()) return;
  if (entry->second.in_hand.empty()) {
    remove(entry);
  } else {
    entry->second.closing = true;
  }
}

void Network::happened(SteadyTime now, const Event& event) {
  if (event.kind == Event::Kind::connected) connected(event.a);
  if (event.kind == Event::Kind::result) result(now, event.a);
}

}  // namespace pen::simulation
