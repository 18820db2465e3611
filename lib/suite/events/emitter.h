#pragma once
/// Reports to penevents what happens, and never waits for it.
///
/// Use:     open(loop, {…});                           // lib/suite/service does, when a setting wants events
///          if (wanted()) tell(Event(Type::order, now).text(Field::queue_id, id));
/// Cost:    without open() one comparison. Else the bytes of the event, and one frame for all events of 100 ms.
/// Sure:    events stay here until penevents says that it has written them. One that ends before is followed by one
///          that is told them again, in their order: so an event may be there twice. What is told three times, and each
///          penevents ended without a word, is dropped.
/// Bounds:  kMaxWaiting bytes are kept, of which some wait while there is no connection, or while penevents does not
///          read as fast as it is told; further events are counted and gone, and penevents learns how many.
/// Thread:  the loop's, of the process that has one.
#include <functional>
#include <string>

#include "lib/base/async/loop.h"
#include "lib/suite/events/event.h"

namespace pen::events {

inline constexpr std::size_t kMaxWaiting = 2 * 1024 * 1024;

struct Source {
  std::string path;              // of penevents' socket
  std::string program, service;  // the program that emits the events
  std::function<void(const std::string& line)> report = {};
};
void open(async::Loop& loop, Source source);

/// For tests: before the loop ends.
void close();

namespace detail {
extern bool open;
}
inline bool wanted() { return detail::open; }
/// Numbers a session of this process, or a connection of it, whether anybody wants events or not.
std::uint64_t next_session();
/// What it is called in events and by pentrace: "4711-12", of the process and its number. 0: no session, no name.
std::string session_text(std::uint64_t number);
/// The time of events that happen now.
WallTime now();
/// No effect while nobody wants events.
void tell(const Event& event);
/// At the end of the process: waits until what was emitted is written, but not for long; reports what may be lost.
async::Task<void> settle();
std::uint64_t dropped();

}  // namespace pen::events
