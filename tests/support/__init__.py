"""What tests are written with: real servers, processes, accounts, samples."""
