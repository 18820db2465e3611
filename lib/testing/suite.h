#pragma once
/// What a file of tests needs for itself stands inside its suite, so that files may be compiled together though each
/// has its own Fixture or World:
///
///   BOOST_AUTO_TEST_SUITE(quotas)
///   namespace { struct Fixture { … }; }
///   PEN_FIXTURE(Fixture)
///   BOOST_AUTO_TEST_CASE(…) …
///   BOOST_AUTO_TEST_SUITE_END()
#include <boost/test/unit_test.hpp>

/// The fixture of the cases that follow in the suite, as BOOST_FIXTURE_TEST_SUITE has it for what is declared before.
#define PEN_FIXTURE(Fixture) using BOOST_AUTO_TEST_CASE_FIXTURE = Fixture;
