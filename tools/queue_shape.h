#pragma once
/// The shape of the queue: how many messages wait for each domain, and for how long.
///
/// Use:     Shape shape({.ages = {5min, 10min, 20min}}, now);
///          shape.add(entry);                     // of a brief listing, once per message
///          print(shape.table());                 // or shape.json()
/// Counts:  a message counts once for each domain it waits for (of the first 32, which is all that a listing has), or
///          once for its sender's domain. So the totals may exceed the number of messages.
/// Memory:  one row per domain.
/// Source:  Postfix: qshape(1).
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/suite/ipc/queue.h"

namespace pen::tools {

/// The upper ends of the columns: `first`, then each time doubled, or one `first` more.
std::vector<minutes> shape_ages(minutes first, std::size_t columns, bool linear);

class Shape {
 public:
  struct Options {
    std::vector<minutes> ages;  // ascending; a last column takes older messages
    bool by_sender = false;
    // Adds rows for parent domains (".example.com") with at least this many subdomains in the queue; top-level
    // domains get none. 0: no such rows.
    std::size_t parents = 0;
    std::size_t rows = 0;   // at most so many, those with most messages; 0: all
    std::size_t width = 0;  // of the table's lines: longer names lose their beginning; 0: as wide as the names need
  };
  Shape(Options options, WallTime now);
  void add(const ipc::queue::Entry& entry);
  /// A header line, the totals, then a line per domain; domains with most messages first.
  std::string table() const;
  /// One object a line, in the same order, without the totals.
  std::string json() const;

 private:
  struct Row {
    std::uint64_t total = 0;
    std::size_t subdomains = 0;
    std::vector<std::uint64_t> by_age;
  };
  using Rows = std::map<std::string, Row, std::less<>>;
  void count(Row& row, std::size_t column) const;
  void add_to(std::string domain, std::size_t column);
  /// The rows to show.
  std::vector<Rows::const_iterator> sorted() const;

  Options options_;
  WallTime now_;
  Rows rows_;
  Row totals_;
};

}  // namespace pen::tools
