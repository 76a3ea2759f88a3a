"""Steps of abort_procedure."""
