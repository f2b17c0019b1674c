"""The tests, as a package so that one test folder can use what another offers."""
